"""Draws the moment of a kill, waits for it in a comparison of its own, kills, and sees the comparison to its end."""

import random
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tasks.store import Store
from tests.soak.chaos.judge import (
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
MOST_ATTEMPTS = 4  # flow runs that may be needed after one kill
MOST_DRAWS = 5  # kills of one trial that may come too late
LEFT_S = 30.0  # after which nothing may be at work any more
NEVER_S = 120.0  # after which a moment that does not come was missed


@dataclass(frozen=True)
class Moment:
    """When to kill: a while after something was seen."""

    after: str  # "asked", "started" (arm), "saved" (arm) or "recorded"
    arm: str
    seconds: float

    def __str__(self) -> str:
        of = f" {self.arm}" if self.after in ("started", "saved") else ""
        return f"{self.seconds:.2f} s after {self.after}{of}"


@dataclass
class Trial:
    """One kill: when, what, and what came of it."""

    number: int
    kind: str
    target: str
    early: bool = False  # before the first step, as far as that can be drawn
    moment: str = ""
    phase: str = ""
    missed: int = 0  # kills before that came too late
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
    """A random moment.

    `lengths`: seconds that the undisturbed comparison took to start its first run, from there to its first step, for
    one run, and for the verdict.
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
    """Whether what the moment is counted from was seen."""
    if moment.after == "asked":
        return True
    if moment.after == "recorded":
        return len(list(place.out.glob("runs/*/record.json"))) == len(ARMS)
    for log in place.out.glob(f"runs/*-{moment.arm}-*/log.txt"):
        text = log.read_bytes()
        return bool(COMMIT_LINE.search(text)) if moment.after == "saved" else bool(text)
    return False


def kill_at(place: Place, trial: Trial, asked: FlowRun | Command | Forked, moment: Moment) -> float | None:
    """Wait for the moment and kill; when it was, or None if there was nothing left to kill."""
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
        if killed is not None or trial.kind in JOBS:  # a flow's process or a server may not be there yet
            return killed
        time.sleep(0.02)


def run_trial(
    place: Place, trial: Trial, drawn: random.Random, lengths: dict[str, float], reference: dict[str, Any]
) -> bool:
    """One comparison with one kill in it; whether there was one, which may take several comparisons."""
    began = time.monotonic()
    for trial.missed in range(MOST_DRAWS):
        # the machine may be faster than it was when the lengths were taken
        moment = draw_moment(drawn, trial, {part: s * 0.5**trial.missed for part, s in lengths.items()})
        trial.moment = str(moment)
        if trial.target != "replay":  # the first arm has been trained, and must not be again
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
    while not finished_well(place.out) and len(trial.states) < MOST_ATTEMPTS:
        trial.states.append(place.ask_for(trial.kind, trial.target).finish())
    trial.seconds = time.monotonic() - began
    judge(place, trial, reference)
    place.out.rename(place.folder / f"trial-{trial.number:02}")
    return True


def judge(place: Place, trial: Trial, reference: dict[str, Any]) -> None:
    """Hold what is there against the undisturbed comparison, and look for what should not be."""
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
    """What is at work a while after everything is over; it is killed."""
    if wait_until(lambda: not place.at_work(), LEFT_S):
        return []
    left = []
    for process in place.at_work():
        with suppress(psutil.NoSuchProcess):
            left.append(f"left running: {' '.join(process.cmdline())[:100]}")
            process.kill()
    return left


def time_to_cause(place: Place, killed: float) -> float | None:
    """Seconds from a trainer's death to the record of its run, which names the cause, and for the second arm's to the
    comparison's."""

    def told() -> float | None:
        for directory in Store(place.out).runs():
            record = directory.read_record()
            if record is not None and record.reading.error is not None and directory.record.stat().st_mtime > killed:
                return directory.record.stat().st_mtime
        return None

    moment = wait_until(told, 60, 0.05)
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
    """How long the parts of a comparison take, and the comparison, which is left where it is."""
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
