"""Records the steps of planned pairs, each once, and evaluates them in float64: yields a result per pair."""

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import product
from pathlib import Path
from threading import Event
from typing import Any

from configs.environment import pass_on
from questions.invariants.judge_twin import answer, judge_twin
from questions.invariants.record_sides import RecordedSide, record_sides
from questions.invariants.twin_plans import TwinPair
from questions.invariants.twin_records import Planted, TwinResult
from tasks.experiments.run_inside import run_inside
from tasks.observe.recorder import read_observation
from tasks.records.observation import Observation
from tasks.records.text import counted
from tasks.resolve.plans import hash_identity

LANES = 2
POLL_S = 0.5  # a wait without an end was not left after Ctrl-C
# how MaxText and JAX refuse a kernel of another device
NO_KERNEL = re.compile("Not supported on cpu|Only interpret mode is supported on CPU")
EVALUATION = "eval_step"  # the trainers' name of the function that evaluates a batch
PATIENCE_S, PATIENCE_OF_PAIR_S = 900.0, 60.0
RECORDED, COMPARED = "recorded", "measured"
NO_RESULT: dict[str, Any] = {"error": ""}
# as in `evaluate.plant`, which needs JAX
FAULTS = ("gradient scaled", "reduction left out", "mask shifted")
REFACTORINGS = ("products commuted", "quotients as products", "roots written out")
type Say = Callable[[str], None]


def evaluate_twins(pairs: Sequence[TwinPair], folder: Path, say: Say = lambda _: None) -> Iterator[TwinResult]:
    """Yield the results in the order in which they are known; those that do not apply come first.

    folder: for recordings and results, which later calls find there. say: takes a line about the progress.
    """
    ready = []
    for pair in pairs:
        if pair.plans is None:
            yield answer(pair.twin, pair.case, "not applicable", pair.why_not)
        else:
            ready.append(pair)
    groups: dict[str, list[TwinPair]] = {}
    for pair in ready:
        groups.setdefault(pair.case, []).append(pair)
    with ThreadPoolExecutor(LANES) as pool, ThreadPoolExecutor(LANES) as others:
        interrupt = Event()
        recordings: dict[Path, Future[dict[Path, Observation]]] = {}
        evaluations = {}
        for name, group in groups.items():
            own = {side.folder: side for pair in group for side in sides_of_pair(pair, folder)}
            fresh = [side for place, side in own.items() if place not in recordings]
            recorded = pool.submit(record_sides, fresh, folder / RECORDED, name, interrupt)
            recordings |= dict.fromkeys([side.folder for side in fresh], recorded)
            needed = {place: recordings[place] for place in own}
            evaluations[others.submit(_evaluate_group, group, folder, needed, interrupt)] = name
        say(f"{counted(len(recordings), 'step')} to record for {counted(len(ready), 'pair')}")
        try:
            pending = set(evaluations)
            while pending:
                finished, pending = wait(pending, timeout=POLL_S, return_when=FIRST_COMPLETED)
                for done in finished:
                    yield from done.result()
                    say(f"{evaluations[done]} is done")
        except BaseException:  # also Ctrl-C: recordings end, and what has not begun does not begin
            interrupt.set()
            for one in (pool, others):
                one.shutdown(wait=False, cancel_futures=True)
            raise


def sides_of_pair(pair: TwinPair, folder: Path) -> tuple[RecordedSide, RecordedSide]:
    """Return both sides of a pair, with the folders of their recordings."""
    assert pair.plans is not None
    left, right = (RecordedSide(plan, folder / RECORDED / plan.identity) for plan in pair.plans)
    if pair.twin.gradients == "automatic":
        right = right.with_recorder("automatic", automatic_gradients=True)
    if pair.twin.nnx == "tree":
        right = right.with_recorder("tree", tree_mode=True)
    if pair.twin.observed == "evaluation":
        right = right.with_recorder("evaluation", function=EVALUATION, batches=1)
    if (steps := pair.twin.resume) is not None:
        left = left.with_recorder(f"step-{steps}", skipped=steps)
        right = right.with_recorder(f"resumed-{steps}")._replace(resumed=steps)
    return left, right


def _evaluate_group(
    group: Sequence[TwinPair],
    folder: Path,
    recordings: dict[Path, "Future[dict[Path, Observation]]"],
    interrupt: Event,
) -> list[TwinResult]:
    """Return the results of one case's pairs, in one process."""
    found, wanted = [], []
    for pair in group:
        sides = sides_of_pair(pair, folder)
        observed = [recordings[side.folder].result()[side.folder] for side in sides]
        silent = next((one for one in observed if one.step is None), None)
        if silent is not None:
            why = _why_silent(silent, sides)
            found.append(answer(pair.twin, pair.case, "not evaluated", why, is_excused=bool(NO_KERNEL.search(why))))
        else:
            wanted.append((pair, sides))
    wanted.sort(key=lambda one: str(one[1][0].folder))  # pairs with one left side follow each other
    found += compare_recorded(wanted, folder, interrupt=interrupt)
    return found


def _why_silent(observation: Observation, sides: Sequence[RecordedSide]) -> str:
    why = observation.notes[0] if observation.notes else "no step was found"
    return f"the step of the {observation.arm or sides[0].plan.arm} side was not recorded: {why}"


def compare_recorded(
    wanted: Sequence[tuple[TwinPair, tuple[RecordedSide, RecordedSide]]],
    folder: Path,
    planted: Sequence[str] = ("",),
    interrupt: Event | None = None,
) -> list[TwinResult]:
    """Compare recorded pairs in one process with JAX; return their results. Pairs compared before are not run again.

    planted: kinds of changes to plant into the right sides' programs, one result for each pair and kind.
    """
    files, settings = [], []
    for (pair, (left, right)), change in product(wanted, planted):
        own: dict[str, Any] = {
            "left": str(left.folder),
            "right": str(right.folder),
            "batch": pair.twin.batch,
            "planted": change,
        }
        own |= {"exact": pair.twin.resume is not None}
        if pair.twin.observed == "evaluation":
            own["steps"] = 1  # it leaves no state for another one
        own["parameters"] = {end: how.model_dump() for end, how in pair.twin.parameters.items()}
        result = folder / COMPARED / f"{hash_identity(own)}.json"
        files.append(result)
        if "error" in _read(result):  # tried again
            settings.append({"result": str(result), **own})
    devices = max([1, *(_devices(one) for _, both in wanted for one in both)])
    problem = run_pairs(settings, folder, devices=devices, interrupt=interrupt)
    found = []
    for ((pair, _), _), result in zip(product(wanted, planted), files, strict=True):
        measured = _read(result)
        found.append(judge_twin(pair.twin, pair.case, measured if measured != NO_RESULT else {"error": problem}))
    return found


def _read(result: Path) -> dict[str, Any]:
    try:
        measured: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return NO_RESULT
    return measured


def plant_changes(pairs: Sequence[TwinPair], folder: Path, say: Say = lambda _: None) -> Iterator[Planted]:
    """Yield what invariants say of each known change, planted into the right side of each recorded pair."""
    for number, pair in enumerate(pairs):
        changes = (*FAULTS, REFACTORINGS[number % len(REFACTORINGS)])
        results = compare_recorded([(pair, sides_of_pair(pair, folder))], folder, changes)
        for change, result in zip(changes, results, strict=True):
            one = Planted(
                twin=pair.twin.name,
                case=pair.case,
                change=result.change or change,
                is_fault=change in FAULTS,
                is_reported={"another": True, "same": False}.get(result.answer),
                sentence=result.sentence,
            )
            word = "not tried" if one.is_reported is None else "reported" if one.is_reported else "silent"
            say(f"planted into {pair.twin.name} · {pair.case}: {one.change}: {word}")
            yield one


def _devices(side: RecordedSide) -> int:
    return read_observation(side.folder).devices


def run_pairs(pairs: Sequence[dict[str, Any]], folder: Path, *, devices: int, interrupt: Event | None = None) -> str:
    """Run the experiments in a process with JAX; return why some are missing, or ""."""
    if not pairs:
        return ""
    place = folder / COMPARED
    place.mkdir(parents=True, exist_ok=True)
    name = f"{time.time_ns():x}"
    settings, done, output = (place / f"{name}.{kind}" for kind in ("settings", "done", "log"))
    settings.write_text(json.dumps({"pairs": list(pairs)}), encoding="utf-8")
    environment = pass_on(os.environ) | {
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
        "OPENBLAS_NUM_THREADS": "1",  # a second thread doubles the CPU time of small products
    }
    problem = run_inside(
        "the evaluation", "evaluate.compare_twins", (settings, done), python=sys.executable, environment=environment,
        output=output, patience_s=PATIENCE_S + PATIENCE_OF_PAIR_S * len(pairs), say=lambda _: None, interrupt=interrupt,
    )  # fmt: skip
    if not problem:
        for file in (settings, done, output):
            file.unlink()
    return problem
