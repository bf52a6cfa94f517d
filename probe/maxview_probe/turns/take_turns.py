"""Runs two recorded training steps in turns, until the difference of their times is decided or the limit is reached.

    python …/start.py take_turns SETTINGS.json RESULT.json

The settings are the fields of `TurnsSettings`. Each draw loads a new executable of each program, with new buffers, and
runs rounds of two turns in random order; see `paired_times`. The result is a JSON object with the fields of
`TurnsResult`, or {"error": sentence, "arm": name or ""}. Lines on standard error show the progress.
"""

import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from maxview_probe.turns.paired_times import Interval, Rule, interval_at, is_decided, looks, ratio_of
from maxview_probe.turns.remote_program import RemoteProgram
from maxview_probe.turns.timed_program import OutOfMemory, TimedArm, TimedProgram, Turn
from maxview_probe.turns.turn_note import TurnNote

TURN_S = 0.02  # least seconds of a turn: shorter steps take several per turn
MAX_STEPS = 64  # of a turn
LOADED_SHARE = 3.0  # × the time that loading takes: the turns of a draw, so that most of the time is measured
ROUNDS = (3, 24)  # least and most rounds of a draw
MIN_DRAWS = 12  # draws that the limit should allow
T = TypeVar("T")


@dataclass(frozen=True)
class TurnsSettings:
    """Both recordings, the rule, and the limit."""

    baseline: str  # folder of the recording
    candidate: str
    names: tuple[str, str]
    limit_s: float  # of all draws, without the first compiles
    chance: float
    tolerance: float
    least: float
    # each arm's Python and environment, if the arms need two processes; None: both run in this process
    pythons: tuple[tuple[str, dict[str, str]], tuple[str, dict[str, str]]] | None = None
    recorded: tuple[str, ...] = ()  # digests of both recordings: a result is of these


@dataclass(frozen=True)
class TurnsResult:
    """The measured difference. Effects and intervals are ln(candidate ÷ baseline)."""

    wall: Interval
    cpu: Interval  # processor time of the host
    ratios: list[float]  # of wall times, one of each draw
    decided: bool
    draws: int
    rounds: int  # of all draws
    steps_per_turn: int
    steps: tuple[int, int]  # timed steps of each arm
    step_s: tuple[float, float]  # median
    compile_s: tuple[float, float]
    peak_bytes: tuple[int | None, int | None]  # of each program, on one device
    alone: bool  # both states did not fit: one after the other
    seconds: float
    load: float  # average number of running processes, over the last minute; 0: unknown


class Broken(Exception):
    """An arm cannot be timed. arm: 0 or 1."""

    def __init__(self, arm: int, text: str):
        super().__init__(text)
        self.arm = arm


class Duet:
    """Two programs that take turns."""

    def __init__(
        self,
        arms: Sequence[TimedArm],
        *,
        chance: random.Random | None = None,
        note: Callable[[int, int], object] = lambda arm, rounds: None,
    ):
        """note: called with an arm and the number of rounds done, before the arm's program is loaded or run."""
        self.arms, self.random, self.note = arms, chance or random.Random(), note
        self.alone = False
        self.rounds = 0
        self.turned_s = 0.0  # that all turns took, with their waits for a processor
        self.done: tuple[list[float], list[float]] = ([], [])  # wall seconds per step, of each arm

    def draw(self, rounds: int, steps: int) -> tuple[float, float]:
        """Return the logarithm of the ratio of wall times and of processor times in one new draw. Raises Broken."""
        if not self.alone:
            try:
                turns = self._in_turns(rounds, steps)
            except OutOfMemory:
                self._unload()
                self.alone = True
        if self.alone:
            turns = self._alone(rounds, steps)
        for side, done in zip(turns, self.done, strict=True):
            done.extend(one.wall_s for one in side)
        sides = [([one.wall_s for one in side], [one.cpu_s for one in side]) for side in turns]
        return ratio_of(sides[0][0], sides[1][0]), ratio_of(sides[0][1], sides[1][1])

    def _order(self) -> list[int]:
        return self.random.sample((0, 1), 2)

    def _in_turns(self, rounds: int, steps: int) -> tuple[list[Turn], list[Turn]]:
        turns: tuple[list[Turn], list[Turn]] = ([], [])
        for arm in self._order():
            self._attempt(arm, self.arms[arm].load)
        for _ in range(rounds):
            for arm in self._order():
                turns[arm].append(self._turn(arm, steps))
            self.rounds += 1
        self._unload()
        return turns

    def _alone(self, rounds: int, steps: int) -> tuple[list[Turn], list[Turn]]:
        turns: tuple[list[Turn], list[Turn]] = ([], [])
        for arm in self._order():
            try:
                self._attempt(arm, self.arms[arm].load)
                turns[arm].extend(self._turn(arm, steps) for _ in range(rounds))
            except OutOfMemory as error:
                raise Broken(arm, f"its program alone does not fit into memory: {error}") from error
            self.arms[arm].unload()
        self.rounds += rounds
        return turns

    def _turn(self, arm: int, steps: int) -> Turn:
        began = time.monotonic()
        found = self._attempt(arm, partial(self.arms[arm].turn, steps))
        self.turned_s += time.monotonic() - began
        return found

    def _attempt(self, arm: int, what: Callable[[], T]) -> T:
        self.note(arm, self.rounds)
        try:
            return what()
        except ValueError as error:
            where = f" after {self.rounds} rounds" if self.rounds else ""
            raise Broken(arm, f"{error}{where}") from error

    def _unload(self) -> None:
        for arm in self.arms:
            arm.unload()


def make_draws(duet: Duet, rule: Rule, limit_s: float, say: Callable[[str], None]) -> TurnsResult:
    """Make draws until the difference is decided, or until the limit is reached. Raises Broken."""
    began = time.monotonic()
    rounds, steps = _plan_draws(duet, limit_s)
    walls: list[float] = []
    cpus: list[float] = []
    due = looks(100_000)
    look = 0
    found = Interval(0.0, float("-inf"), float("inf"))
    while not is_decided(found, rule):
        if time.monotonic() - began >= limit_s and len(walls) >= 2:
            break
        wall, cpu = duet.draw(rounds, steps)
        walls.append(wall)
        cpus.append(cpu)
        if len(walls) == due[look]:
            look += 1
            found = interval_at(walls, look, rule.chance)
            say(f"turns {len(walls)} draws, {duet.rounds} rounds: {100 * found.effect:+.2f} %"
                f" ({100 * found.low:+.2f} … {100 * found.high:+.2f})")  # fmt: skip
    last = None if not is_decided(found, rule) else look  # the limit is the last look
    found = interval_at(walls, last, rule.chance)
    timed = [len(side) * steps for side in duet.done]
    return TurnsResult(
        wall=found,
        cpu=interval_at(cpus, last, rule.chance),
        ratios=walls,
        decided=is_decided(found, rule),
        draws=len(walls),
        rounds=duet.rounds,
        steps_per_turn=steps,
        steps=(timed[0], timed[1]),
        step_s=(statistics.median(duet.done[0]), statistics.median(duet.done[1])),
        compile_s=(duet.arms[0].compile_s, duet.arms[1].compile_s),
        peak_bytes=(duet.arms[0].peak_bytes, duet.arms[1].peak_bytes),
        alone=duet.alone,
        seconds=time.monotonic() - began,
        load=os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0,
    )


def _plan_draws(duet: Duet, limit_s: float) -> tuple[int, int]:
    """Return the rounds of a draw and the steps of a turn, from a first draw that is not counted."""
    began = time.monotonic()
    duet.draw(ROUNDS[0], 1)
    step_s = statistics.median([*duet.done[0], *duet.done[1]])
    load_s = max(time.monotonic() - began - duet.turned_s, 0.0)
    steps = min(max(round(TURN_S / step_s + 0.5), 1), MAX_STEPS)
    round_s = steps * max(duet.turned_s / ROUNDS[0], 2 * step_s)
    wanted = min(LOADED_SHARE * load_s, limit_s / MIN_DRAWS - load_s) / round_s
    for side in duet.done:
        side.clear()
    duet.rounds = 0
    return min(max(round(wanted), ROUNDS[0]), ROUNDS[1]), steps


def _open(settings: TurnsSettings, arm: int, folder: Path) -> TimedArm:
    if settings.pythons is None:
        return TimedProgram(folder)
    return RemoteProgram(folder, *settings.pythons[arm])


def take_turns(
    settings: TurnsSettings, say: Callable[[str], None], note: Callable[[str, int], object] = lambda name, rounds: None
) -> dict[str, Any]:
    """Return the result as JSON; see the module."""
    arms: list[TimedArm] = []
    for arm, folder in enumerate((settings.baseline, settings.candidate)):
        say(f"compiling the step of {settings.names[arm]}")
        note(settings.names[arm], 0)
        try:
            arms.append(_open(settings, arm, Path(folder)))
        except (ValueError, OutOfMemory) as error:
            return {"error": str(error), "arm": settings.names[arm]}
    try:
        rule = Rule(settings.chance, settings.tolerance, settings.least)
        duet = Duet(arms, note=lambda arm, rounds: note(settings.names[arm], rounds))
        return asdict(make_draws(duet, rule, settings.limit_s, say))
    except Broken as error:
        return {"error": str(error), "arm": settings.names[error.arm]}


def main(argv: Sequence[str]) -> int:
    """Write the result of the settings' file."""
    given = json.loads(Path(argv[0]).read_text(encoding="utf-8"))
    note = TurnNote(Path(argv[1])).write
    settings = TurnsSettings(**given)
    found = take_turns(settings, lambda text: print(f"progress: {text}", file=sys.stderr, flush=True), note)
    Path(argv[1]).write_text(json.dumps(found), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
