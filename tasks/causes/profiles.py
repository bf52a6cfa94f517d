"""Turns two profiles of a few steps into the source lines, and the parts of the host, that take longer in one."""

import json
import os
import statistics
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from configs.environment import pass_on
from tasks.causes.instruction_lines import OptimisedProgram
from tasks.causes.source_lines import SourceLine, name_place
from tasks.records import CodeLine, TimeDifference, TimeExplanation

MOST_LISTED = 20
HEADLINE = 3
LEAST_SHARE = 0.01  # of the seconds in operations: a smaller difference is not told first
PATIENCE_S = 600.0
GAP, COLLECTION = "the host between the steps", "garbage collection of the host"
_ROOT = Path(__file__).parent.parent.parent
# they hold others, which are there by themselves
_HOLDERS = frozenset({"while", "call", "conditional", "async-start", "async-done"})

type Key = tuple[str, str]  # a function, an instruction or a part of the host
type Profile = Mapping[str, Any]  # as `model/compile/profile.py` writes it


class Part(NamedTuple):
    """Seconds of a step, and by how much more the second quickest of the profiled steps takes."""

    what: str
    line: CodeLine | None
    seconds: float
    spread: float = 0.0


class ProfiledStep(NamedTuple):
    """One arm's profile, and the program that says where its instructions come from."""

    profile: Profile
    program: OptimisedProgram | None
    name: str  # of the step's function


def find_profile(folder: Path) -> Path | None:
    """The newest profile in a folder: JAX puts each into a folder of its own."""
    found = sorted(folder.rglob("*.xplane.pb"))
    return found[-1] if found else None


def read_profiles(paths: Sequence[Path]) -> list[Profile]:
    """Read these files with `model.compile.profile`, in a process with JAX. Raises ValueError with its complaint."""
    environment = pass_on(os.environ) | {"JAX_PLATFORMS": "cpu"}
    argv = [sys.executable, "-W", "ignore", "-m", "model.compile.profile", *map(str, paths)]
    done = subprocess.run(
        argv, cwd=_ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    if done.returncode:
        raise ValueError((done.stderr.strip().splitlines() or ["the profiles could not be read"])[-1])
    return [json.loads(line) for line in done.stdout.splitlines()]


def compare_profiles(baseline: ProfiledStep, candidate: ProfiledStep, names: tuple[str, str]) -> TimeExplanation | None:
    """The differences by source line, the largest first; None where a profile has no run of the step."""
    sides = (baseline, candidate)
    modules = [_find_module(side) for side in sides]
    if modules[0] is None or modules[1] is None:
        return None
    parts = [_sum_parts(side, module) for side, module in zip(sides, modules, strict=True) if module is not None]
    operations = [sum(part.seconds for key, part in side.items() if key[0] not in (GAP, COLLECTION)) for side in parts]
    found = []
    for key in parts[0].keys() | parts[1].keys():
        found.append(_compare_part(parts[0].get(key), parts[1].get(key), max(operations), names))
    # what the steps of one arm differ by among themselves is no difference between the arms: it comes last
    found.sort(key=lambda one: (not one.sure, -abs(one.candidate_s - one.baseline_s), one.what))
    steps = [_step_seconds(module["runs"]) for module in modules if module is not None]
    return TimeExplanation(
        sentence=_say_largest(found, steps, names),
        steps=(len(modules[0]["runs"]), len(modules[1]["runs"])),
        step_s=(steps[0], steps[1]),
        operations_s=(operations[0], operations[1]),
        differences=tuple(found[:MOST_LISTED]),
    )


def _find_module(side: ProfiledStep) -> Mapping[str, Any] | None:
    """The program of the step: by its name, else the one that takes most of the time."""
    modules = side.profile["modules"]
    named = modules.get(f"jit_{side.name}")
    if named is None and modules:
        named = max(modules.values(), key=lambda one: sum(map(sum, one["instructions"].values())))
    found: Mapping[str, Any] | None = named
    return found


def _sum_parts(side: ProfiledStep, module: Mapping[str, Any]) -> dict[Key, Part]:
    """By function of the trainer, all passes together: lines move between two commits, functions less. Each is that of
    the quickest step: other work on the machine only adds time."""
    runs = len(module["runs"])
    sums: dict[Key, list[float]] = defaultdict(lambda: [0.0] * runs)
    kinds: dict[Key, Counter[str]] = defaultdict(Counter)
    lines: dict[Key, Counter[SourceLine]] = defaultdict(Counter)
    phases: dict[Key, Counter[str]] = defaultdict(Counter)
    for name, spent in module["instructions"].items():
        located = side.program.located.get(name) if side.program else None
        if located is None:
            key, what = (name, ""), name
            if name.partition(".")[0] in _HOLDERS:
                continue
        elif located.instruction.opcode in _HOLDERS:
            continue
        else:
            source, what = located.source, located.what
            key = (name_place(source), "") if source.file else (name, "")
            phases[key][located.phase] += int(sum(spent))
            lines[key][source] += int(sum(spent))
        kinds[key][what] += int(sum(spent))
        for run, nanoseconds in enumerate(spent):
            sums[key][run] += nanoseconds
    found = {}
    for key, per_run in sums.items():
        most = lines[key].most_common(1)
        line = _code_line(most[0][0]) if most and most[0][0].file else None
        what = ", ".join(
            [*(kind for kind, _ in kinds[key].most_common(2)), *(phase for phase, _ in phases[key].most_common())]
        )
        unit = 1e9 * side.profile["devices"]
        found[key] = Part(what, line, min(per_run) / unit, _spread(per_run) / unit)
    return found | _host_parts(side.profile, module["runs"])


def _code_line(source: SourceLine) -> CodeLine:
    return CodeLine(file=source.file, line=source.line, function=source.function, path=source.path)


def _host_parts(profile: Profile, runs: Sequence[Sequence[float]]) -> dict[Key, Part]:
    """Rows of their own: the shortest gap between two steps, and the garbage collections in a gap."""
    if len(runs) < 2:
        return {}
    gaps = [max(after[0] - before[1], 0.0) for before, after in pairwise(runs)]
    first, last = runs[0][1], runs[-1][0]
    within = [spent for begin, spent in profile["collections"] if first <= begin <= last]
    collected, times = sum(within) / len(gaps), len(within)
    return {
        (GAP, ""): Part(GAP, None, min(gaps) / 1e9, _spread(gaps) / 1e9),
        # one that only some gaps have is chance
        (COLLECTION, ""): Part(COLLECTION, None, collected / 1e9, 0.0 if times >= len(gaps) else collected / 1e9),
    }


def _spread(values: Sequence[float]) -> float:
    """By how much the second quickest differs from the quickest: what is left to chance in the latter."""
    least, *others = sorted(values)
    return others[0] - least if others else 0.0


def _step_seconds(runs: Sequence[Sequence[float]]) -> float:
    begins = [begin for begin, _ in runs]
    if len(begins) < 2:
        return (runs[0][1] - runs[0][0]) / 1e9 if runs else 0.0
    return statistics.median(after - before for before, after in pairwise(begins)) / 1e9


def _compare_part(left: Part | None, right: Part | None, step_s: float, names: tuple[str, str]) -> TimeDifference:
    seconds = [part.seconds if part else 0.0 for part in (left, right)]
    one = right if right and (left is None or right.seconds >= left.seconds) else left
    assert one is not None  # the key is from one of them
    place = f" at {one.line.file}:{one.line.line} {one.line.function}".rstrip() if one.line else ""
    slower = names[1] if seconds[1] > seconds[0] else names[0]
    more = abs(seconds[1] - seconds[0])
    spread = max(part.spread for part in (left, right) if part)
    least = max(spread, LEAST_SHARE * step_s)
    return TimeDifference(
        what=one.what,
        baseline_s=seconds[0],
        candidate_s=seconds[1],
        baseline_line=left.line if left else None,
        candidate_line=right.line if right else None,
        sure=more > least,
        sentence=f"{slower} takes {1e3 * more:.2f} ms more a step in {one.what}{place}",
    )


def _say_largest(found: Sequence[TimeDifference], steps: Sequence[float], names: tuple[str, str]) -> str:
    said = f"a step takes {1e3 * steps[0]:.1f} ms in {names[0]} and {1e3 * steps[1]:.1f} ms in {names[1]}"
    largest = "; ".join(one.sentence for one in found[:HEADLINE] if one.sure)
    return f"{said}: {largest or 'no line differs by more than the steps of one arm do'}"
