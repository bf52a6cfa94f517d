"""Draws the moment of a kill, waits for it in a separate comparison, kills, and follows the comparison to its end."""

import random
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tasks.store.store import Store
from tests.soak.chaos.compare_stores import (
    COMMIT_LINE,
    STEP_LINE,
    canonical,
    differences,
    finished_well,
    look_at_attempts,
    phase_of,
)
from tests.soak.chaos.place import Command, FlowRun, Forked, Place, wait_until

KINDS = ("flow", "worker", "embedded", "server", "trainer", "supervisor")
JOBS = ("trainer", "supervisor")
ARMS = ("linen", "nnx")
MAX_ATTEMPTS = 4  # flow runs that may be needed after one kill
MAX_DRAWS = 5  # limit of late kills of one trial
LEFT_S = 30.0  # after which no process may be left
NEVER_S = 120.0  # after which a moment counts as missed


@dataclass(frozen=True)
class Moment:
    """The moment of a kill: seconds after an observed event."""

    after: str  # "asked", "started" (arm), "saved" (arm) or "recorded"
    arm: str
    seconds: float

    def __str__(self) -> str:
        of = f" {self.arm}" if self.after in ("started", "saved") else ""
        return f"{self.seconds:.2f} s after {self.after}{of}"


@dataclass
class Trial:
    """One kill: its moment, its target and its outcome."""

    number: int
    kind: str
    target: str
    early: bool = False  # drawn to fall before the first step
    moment: str = ""
    phase: str = ""
    missed: int = 0  # earlier kills that came too late
    states: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    starts: int = 0
    resumed: int = 0
    repeated: int = 0
    seconds: float = 0.0
    verdict_s: float | None = None

    @property
    def problems(self) -> list[str]:
        return [*self.stuck, *self.different, *self.twice, *self.left]


def draw_moment(drawn: random.Random, trial: Trial, lengths: dict[str, float]) -> Moment:
    """Draw a random moment.

    `lengths`: seconds of the undisturbed comparison to its first run's start, from there to the first step, of one run,
    and of the verdict.
    """
    job, arms = trial.kind in JOBS, ARMS if trial.target == "replay" else ARMS[1:]
    if trial.early:
        before = lengths["first step"] + (0.0 if job else lengths["start"])
        return Moment("started" if job else "asked", arms[0], drawn.uniform(0.0, before))
    arm = drawn.choice(arms)
    if trial.target != "replay" and (job or drawn.random() < 0.5):
        return Moment("saved", arm, drawn.uniform(0.0, 0.5))
    if job or drawn.random() < 0.7:
        return Moment("started", arm, drawn.uniform(0.0, lengths["run"] * (0.9 if job else 1.0)))
    return Moment("recorded", arm, drawn.uniform(0.0, lengths["verdict"]))


def has_come(place: Place, moment: Moment) -> bool:
    """Return whether the moment's event was observed."""
    if moment.after == "asked":
        return True
    if moment.after == "recorded":
        return len(list(place.out.glob("runs/*/record.json"))) == len(ARMS)
    for log in place.out.glob(f"runs/*-{moment.arm}-*/log.txt"):
        text = log.read_bytes()
        return bool(COMMIT_LINE.search(text)) if moment.after == "saved" else bool(text)
    return False


def kill_at(place: Place, trial: Trial, asked: FlowRun | Command | Forked, moment: Moment) -> float | None:
    """Wait for the moment and kill; return its time, or None if no process was left to kill."""
    deadline, looked = time.monotonic() + NEVER_S, time.monotonic()
    while not has_come(place, moment):
        if time.monotonic() - looked > 1.0:
            looked = time.monotonic()
            if asked.is_over() or looked > deadline:
                return None
        time.sleep(0.01)
    time.sleep(moment.seconds)
    while True:
        if asked.is_over():
            return None
        trial.phase = phase_of(place.out)
        killed = place.kill(trial.kind)
        if killed is not None or trial.kind in JOBS:  # a flow's process or a server may not exist yet
            return killed
        time.sleep(0.02)


def run_trial(
    place: Place, trial: Trial, drawn: random.Random, lengths: dict[str, float], reference: dict[str, Any]
) -> bool:
    """Run a comparison with one kill, again if the kill comes too late; return whether a kill hit."""
    began = time.monotonic()
    for trial.missed in range(MAX_DRAWS):
        # the machine may be faster than it was when the lengths were taken
        moment = draw_moment(drawn, trial, {part: s * 0.5**trial.missed for part, s in lengths.items()})
        trial.moment = str(moment)
        if trial.target != "replay":  # the first arm is already trained and must not be repeated
            (trained,) = (place.folder / "stored" / "runs").glob(f"*-{ARMS[0]}-*")
            shutil.copytree(trained, place.out / "runs" / trained.name)
        asked = place.ask_for(trial.kind, trial.target)
        killed = kill_at(place, trial, asked, moment)
        if killed is not None:
            break
        asked.finish()
        place.out.rename(place.folder / f"late-{trial.number:02}-{trial.missed}")
    else:
        return False
    if trial.kind in ("server", "worker"):
        place.bring_back(trial.kind)
    if trial.kind in JOBS:
        trial.verdict_s = time_to_cause(place, killed)
    trial.states.append(asked.finish())
    while not finished_well(place.out) and len(trial.states) < MAX_ATTEMPTS:
        trial.states.append(place.ask_for(trial.kind, trial.target).finish())
    trial.seconds = time.monotonic() - began
    judge(place, trial, reference)
    place.out.rename(place.folder / f"trial-{trial.number:02}")
    return True


def judge(place: Place, trial: Trial, reference: dict[str, Any]) -> None:
    """Compare the results with the undisturbed comparison, and collect the problems."""
    trial.stuck = [state for state in trial.states if state.startswith("stuck")]
    trial.different = list(differences(canonical(place.out), reference))
    for run in sorted(place.out.glob("runs/*")):
        starts, resumed, repeated, problems = look_at_attempts(run, resumes=trial.target != "replay")
        trial.starts += starts
        trial.resumed += resumed
        trial.repeated += repeated
        trial.twice += problems
    trial.left = find_left(place)


def find_left(place: Place) -> list[str]:
    """Kill the processes that still run LEFT_S after the end; return a line for each."""
    if wait_until(lambda: not place.at_work(), LEFT_S):
        return []
    left = []
    for process in place.at_work():
        with suppress(psutil.NoSuchProcess):
            left.append(f"left running: {' '.join(process.cmdline())[:100]}")
            process.kill()
    return left


def time_to_cause(place: Place, killed: float) -> float | None:
    """Return seconds from a trainer's death to the record with its cause: the run's, or for the second arm the
    comparison's."""

    def reported() -> float | None:
        for directory in Store(place.out).runs():
            record = directory.read_record()
            if record is not None and record.reading.error is not None and directory.record.stat().st_mtime > killed:
                return directory.record.stat().st_mtime
        return None

    moment = wait_until(reported, 60, 0.05)
    if moment is None:
        return None
    second = len(list(place.out.glob("runs/*/record.json"))) == 2
    pages = lambda: list(place.out.glob("comparisons/*/*/*/comparison.json"))  # noqa: E731
    if second and (found := wait_until(pages, 30, 0.05)):
        moment = found[0].stat().st_mtime
    return float(moment) - killed


def undisturbed(
    place: Place, target: str, ask: Callable[[str], FlowRun | Forked]
) -> tuple[dict[str, float], FlowRun | Forked]:
    """Run an undisturbed comparison; return the seconds of its parts and the comparison, whose files stay."""
    moments: dict[str, float] = {"asked": time.monotonic()}
    asked = ask(target)

    def note(name: str, seen: Callable[[], object]) -> None:
        if wait_until(lambda: seen() or asked.is_over(), 300, 0.1):
            moments[name] = time.monotonic()

    def logs() -> list[Path]:
        return list(place.out.glob("runs/*/log.txt"))

    note("first", logs)
    note("stepped", lambda: any(STEP_LINE.search(log.read_bytes()) for log in logs()))
    note("recorded", lambda: len(list(place.out.glob("runs/*/record.json"))) == len(ARMS))
    end = asked.finish()
    moments["over"] = time.monotonic()
    if not finished_well(place.out):
        raise RuntimeError(f"the undisturbed comparison on {target} ended {end}")
    lengths = {
        "start": moments["first"] - moments["asked"],
        "first step": moments["stepped"] - moments["first"],
        "run": (moments["recorded"] - moments["first"]) / len(ARMS),
        "verdict": moments["over"] - moments["recorded"],
    }
    return lengths, asked
