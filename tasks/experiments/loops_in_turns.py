"""Times both trainers' loops in turns: each runs unchanged in its own process, and a token lets one of them run."""

import json
import os
import random
import select
import shutil
import signal
import statistics
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from math import inf, log1p
from pathlib import Path
from typing import Any

import numpy as np

from configs.verdict_rules import device_kind_of, load_verdict_rules
from maxview_probe.observe.loop_files import DONE, GO, WARM
from maxview_probe.turns.paired_times import Interval, Rule, chance_at, is_decided, looks, trimmed_interval
from tasks.diff.judge.loop_rows import tolerance_of_loop
from tasks.experiments.emptied_trainer import TAKES_STEPS
from tasks.experiments.host_loops import time_host_loops
from tasks.experiments.interleave import COMPILE_S, TurnLimits, as_ratio, limits_of
from tasks.experiments.observe_arm import end_after, make_run_folder
from tasks.experiments.recordings import SIDES, Both
from tasks.experiments.run_inside import Say
from tasks.launch.backend import LaunchError
from tasks.launch.local.process_group import is_alive, launch, stop
from tasks.launch.logs import read_exit_code
from tasks.observe.recorder import explain_missing_step, prepare_recorder
from tasks.records.host_times import HostTimes
from tasks.records.loop_times import LoopCompile, LoopTimes
from tasks.records.observation import LOG, Observation
from tasks.records.plan import RunPlan
from tasks.records.program_times import TimeRatio
from tasks.records.text import counted

COST = "then both trainers run in turns for as long, twice if they differ"
STEPS = 100_000  # of a trainer whose command takes a number; it is ended
TURN_S = 120.0  # limit of a turn, or TURN_SHARE × what it should take
TURN_SHARE = 20.0
BLOCK_S, LEAST_STEPS, LONG_S = 0.1, 5, 2.0  # a turn takes so long, and has so many steps unless these take longer
OUTSIDE = 0.25  # share of the rounds at each end that does not count: bursts of other load, saves, evaluations
WANTED = 30  # rounds for which a short training should suffice
LEAST_ROUNDS = 10
PROCESSES = 0.01  # two processes of one trainer differ by up to a percent, which no round of theirs shows
NO_MEMORY = ("RESOURCE_EXHAUSTED", "ut of memory", "MemoryError")
TAIL = 65_536  # characters of a log in which they are looked for


class Ended(Exception):
    """A loop has run all its steps."""


class Failed(Exception):
    """A loop cannot take turns; the text says why."""


class Loop:
    """A trainer whose loop takes turns. Its processes are frozen while it waits: also its input does not go on."""

    def __init__(self, plan: RunPlan, folder: Path, limit_s: float):
        """Start the trainer. limit_s: after which its supervisor ends it, also if nothing is left that does."""
        self.plan, self.folder = plan, folder
        self.group = 0  # of its processes, once known
        self.turns: list[dict[str, Any]] = []
        self.pipes: list[int] = []
        shutil.rmtree(folder, ignore_errors=True)
        moved = make_run_folder(end_after(plan, STEPS) if plan.trainer in TAKES_STEPS else plan, folder)
        for name in (GO, DONE):
            os.mkfifo(folder / name)
            self.pipes.append(os.open(folder / name, os.O_RDWR | os.O_NONBLOCK))
        own = prepare_recorder(
            folder.absolute(), moved.environment, turns=True, function=plan.step[0] if plan.step else ""
        )
        # on a GPU the first process would take the memory of both
        environment = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", **moved.environment, **own}
        limited = min(plan.time_limit_s, int(limit_s))
        moved = moved.replace(environment=environment, time_limit_s=limited)
        self.handle = launch(moved, folder / LOG, writable=(folder.absolute(),), grace_s=1.0)

    def read(self, limit_s: float) -> dict[str, Any]:
        """Return the trainer's next line, and freeze it. Raises Ended, Failed."""
        ends, text = time.monotonic() + limit_s, b""
        while not text.endswith(b"\n"):
            if select.select([self.pipes[1]], [], [], 0.1)[0]:
                text += os.read(self.pipes[1], 65_536)
            elif not is_alive(self.handle):
                raise self.explain_end()
            elif time.monotonic() > ends:
                raise Failed(f"the loop of {self.plan.arm} did not come to its step in {limit_s:.0f} s")
        found: dict[str, Any] = json.loads(text)
        self.group = os.getpgid(found["pid"])
        os.killpg(self.group, signal.SIGSTOP)
        return found

    def turn(self, steps: int, limit_s: float) -> None:
        """Let the loop run some steps. Raises Ended, Failed."""
        with suppress(ProcessLookupError):  # `read` says how it ended
            os.killpg(self.group, signal.SIGCONT)
        os.write(self.pipes[0], f"{steps}\n".encode())
        self.turns.append({**self.read(limit_s), "steps": steps})

    def explain_end(self) -> Exception:
        """Return the exception of a trainer that has ended."""
        log = self.folder / LOG
        code = read_exit_code(log)
        if code and any(word in log.read_text(encoding="utf-8", errors="replace")[-TAIL:] for word in NO_MEMORY):
            return Failed("both trainers together do not fit into memory, so their loops take no turns")
        if not self.group:
            return Failed(f"the loop of {self.plan.arm} was not seen: {explain_missing_step(self.folder)}")
        return Failed(f"{self.plan.arm} died in its turn with exit code {code}") if code else Ended()

    def seconds(self, what: str) -> list[float]:
        """Return the seconds per step of each turn that counts."""
        return [turn[what] / turn["steps"] for turn in self.turns[1:]]

    def stop(self) -> None:
        """End the trainer."""
        for pipe in self.pipes:
            os.close(pipe)  # the trainer ends at the end of the file
        with suppress(ProcessLookupError):
            if self.group:
                os.killpg(self.group, signal.SIGCONT)
        stop(self.handle)


def time_loops(
    plans: Both[RunPlan],
    folder: Path,
    limits: TurnLimits,
    known: LoopTimes | None = None,
    known_host: HostTimes | None = None,
    *,
    one_program: bool,
    say: Say,
) -> tuple[LoopTimes, HostTimes | None]:
    """Return both loops' times, and those of their hosts alone if these may decide the loops of one program.

    known: times that were measured before, or why none can be. known_host: the hosts' times that belong to them.
    """
    loops = known or turn_loops(plans, folder, limits, say)
    if not one_program or not needs_hosts(loops, limits):
        return loops, None
    if known is not None and known_host is not None and known_host.wall is not None:
        return loops, known_host
    return loops, time_host_loops(plans, folder, limits.chance, say)


def turn_loops(plans: Both[RunPlan], folder: Path, limits: TurnLimits, say: Say = lambda text: None) -> LoopTimes:
    """Return the difference of both loops' time per step; with a `problem` if they cannot be timed.

    plans: of both arms, on this machine.
    """
    elsewhere = next((plan for plan in plans if plan.backend != "local"), None)
    if elsewhere is not None:
        where = f"{elsewhere.arm} runs on {elsewhere.target}, and not on this machine"
        return LoopTimes(problem=f"{where}: runs are judged")
    if "tpu" in {plan.config.get("hardware") for plan in plans}:
        return LoopTimes(problem="a TPU belongs to one process, so the loops take no turns: runs are judged")
    times = _turn_new_processes(plans, folder, limits, say)
    if not _differ(times.wall, limits):
        return times
    say("the loops differ: measuring it once more in new processes")
    again = _turn_new_processes(plans, folder, limits, say)
    return again if again.wall is None else _span_both(times, again)


def _turn_new_processes(plans: Both[RunPlan], folder: Path, limits: TurnLimits, say: Say) -> LoopTimes:
    """Return the difference of both loops' time per step in newly started processes."""
    loops: list[Loop] = []
    try:
        say("starting both trainers, whose loops take turns")
        for plan, side in zip(plans, SIDES, strict=True):
            loops.append(Loop(plan, folder / "loops" / side, COMPILE_S + 2 * limits.limit_s))
        for loop in loops:
            loop.read(COMPILE_S)
        return _take_turns(loops, limits, say)
    except LaunchError as error:
        return LoopTimes(problem=f"a trainer does not start: {error}")
    except Failed as error:
        return LoopTimes(problem=str(error))
    except Ended:
        return LoopTimes(problem=f"the trainers run no more than {WARM} steps: train more")
    finally:
        for loop in loops:
            loop.stop()


def _differ(ratio: TimeRatio | None, limits: TurnLimits) -> bool:
    """Return whether two loops differ by enough to be reported."""
    return ratio is not None and (ratio.low > 0 or ratio.high < 0) and abs(log1p(ratio.effect)) >= limits.least


def _span_both(one: LoopTimes, again: LoopTimes) -> LoopTimes:
    """Return the times of two pairs of processes: what both show. A pair's own difference is in none of its rounds."""
    return one.replace(
        wall=_hull(one.wall, again.wall),
        cpu=_hull(one.cpu, again.cpu),
        rounds=one.rounds + again.rounds,
        steps=one.steps + again.steps,
        compiles=(_add(one.compiles[0] + again.compiles[0]), _add(one.compiles[1] + again.compiles[1])),
        processes=2,
        seconds=one.seconds + again.seconds,
        load=max(one.load, again.load),
    )


def _add(compiles: Iterable[LoopCompile]) -> tuple[LoopCompile, ...]:
    found: dict[tuple[str, str], LoopCompile] = {}
    for one in compiles:
        key = one.function, one.place
        found[key] = one.replace(count=found[key].count + one.count) if key in found else one
    return tuple(found.values())


def _hull(one: TimeRatio | None, again: TimeRatio | None) -> TimeRatio | None:
    if one is None or again is None:
        return one or again
    effect = (one.effect + again.effect) / 2
    return TimeRatio(effect=effect, low=min(one.low, again.low), high=max(one.high, again.high))


def loop_limits(plan: RunPlan, platform: str | None, *, cases: int, limit_s: float) -> TurnLimits:
    """Return the limits of a case by its comparison's rules. platform: JAX's name of the devices; None: unknown."""
    rules = plan.rules or load_verdict_rules(plan.comparison, plan.target)
    tolerance = tolerance_of_loop(rules, device_kind_of(None, platform))
    limits = limits_of(rules, cases=cases, limit_s=limit_s)
    return limits.replace(tolerance=log1p(tolerance.relative or 0.0), least=log1p(tolerance.least or 0.0))


def needs_hosts(loops: LoopTimes, limits: TurnLimits) -> bool:
    """Return whether one program's two loops are not certainly the same, so that their hosts are timed without it."""
    if loops.wall is None:
        return True
    return not (-limits.tolerance < log1p(loops.wall.low) and log1p(loops.wall.high) < limits.tolerance)


def name_other_calls(observations: Both[Observation], names: Both[str]) -> LoopTimes | None:
    """Return why loops cannot be compared by calls: an update takes another number of them; None if they can."""
    periods = [one.cycle.period if one.cycle is not None else 1 for one in observations]
    if periods[0] == periods[1]:
        return None
    sides = [f"{name} calls its step {counted(n, 'time')}" for name, n in zip(names, periods, strict=True)]
    return LoopTimes(problem=f"{' and '.join(sides)} for an update, so their loops take no turns")


def _take_turns(loops: Sequence[Loop], limits: TurnLimits, say: Say) -> LoopTimes:
    began, order = time.monotonic(), random.Random()
    rule = Rule(limits.chance, limits.tolerance, limits.least)
    due, look, found = looks(100_000), 0, Interval(0.0, -inf, inf)
    steps = 1
    with suppress(Ended):
        for loop in loops:
            loop.turn(steps, TURN_S)
        expected = max(turn["wall_s"] for loop in loops for turn in loop.turns)
        steps = _choose_steps([loop.plan for loop in loops], statistics.mean(loop.turns[0]["ran_s"] for loop in loops))
        limit_s = max(TURN_S, TURN_SHARE * expected * steps)
        while not is_decided(found, rule) and time.monotonic() - began < limits.limit_s:
            for n in order.sample((0, 1), 2):
                loops[n].turn(steps, limit_s)
            if _count_rounds(loops) >= LEAST_ROUNDS and _count_rounds(loops) >= due[look]:
                look += 1
                found = _interval(loops, "ran_s", chance_at(look, limits.chance))
                shown = f"{100 * found.effect:+.1f} % ({100 * found.low:+.1f} … {100 * found.high:+.1f})"
                say(f"loops in turns: {counted(_count_rounds(loops), 'round')}: {shown}")
    seconds, rounds = time.monotonic() - began, _count_rounds(loops)
    if rounds < LEAST_ROUNDS:
        why = f"only {counted(rounds, 'round')} of {counted(steps, 'step')} of the loops in {seconds:.0f} s"
        return LoopTimes(problem=f"{why}: train more steps, or give them longer")
    spent = chance_at(look if is_decided(found, rule) else None, limits.chance)
    medians = [[statistics.median(loop.seconds(what)) for what in ("ran_s", "cpu_s")] for loop in loops]
    return LoopTimes(
        wall=as_ratio(found if is_decided(found, rule) else _interval(loops, "ran_s", spent)),
        cpu=as_ratio(_interval(loops, "cpu_s", spent)),
        step_s=(medians[0][0], medians[1][0]),
        cpu_s=(medians[0][1], medians[1][1]),
        rounds=rounds,
        steps=rounds * steps,
        compiles=_count_compiles(loops),
        seconds=seconds,
        limit_s=limits.limit_s,
        load=os.getloadavg()[0],
    )


def _count_rounds(loops: Sequence[Loop]) -> int:
    return min(len(loop.turns) for loop in loops) - 1


def _interval(loops: Sequence[Loop], what: str, chance: float) -> Interval:
    """Return the logarithm of candidate ÷ baseline over neighbouring turns, which ran the same steps of both."""
    rounds = _count_rounds(loops)
    left, right = (np.log(loop.seconds(what)[:rounds]) for loop in loops)
    found = trimmed_interval((right - left).tolist(), OUTSIDE, chance)
    return Interval(found.effect, found.low - PROCESSES, found.high + PROCESSES)


def _choose_steps(plans: Sequence[RunPlan], step_s: float) -> int:
    """Return the steps of a turn."""
    steps = max(round(BLOCK_S / step_s), min(LEAST_STEPS, int(LONG_S / step_s)), 1)
    short = [plan.config["steps"] for plan in plans if plan.trainer not in TAKES_STEPS and plan.config.get("steps")]
    return min([steps, *(max((int(one) - WARM) // WANTED, 1) for one in short)])


def _count_compiles(loops: Sequence[Loop]) -> Both[tuple[LoopCompile, ...]]:
    """Return what each loop compiled in the steps that both have run."""
    last = min(loop.turns[-1]["calls"] for loop in loops)
    found = []
    for loop in loops:
        noted = [one for turn in loop.turns for one in turn["compiles"] if one[0] <= last]
        counts = Counter((name, place) for _, name, place, _ in noted)
        reasons = {(name, place): why for _, name, place, why in noted}
        found.append(
            tuple(
                LoopCompile(function=name, place=place, why=reasons[name, place], count=count)
                for (name, place), count in counts.most_common()
            )
        )
    return found[0], found[1]
