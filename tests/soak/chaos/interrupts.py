"""Presses Ctrl-C once or twice at random moments of a command whose server is running, killed or stopped."""

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from tasks.store.store import Store
from tests.soak.chaos.kills import find_left
from tests.soak.chaos.place import Forked, Place

# States of the server before the Ctrl-C: the command's embedded one, and one started by `maxview up`.
SERVERS = ("embedded", "embedded, killed", "running", "running, killed", "running, stopped")
SIGNALS = {"killed": signal.SIGKILL, "stopped": signal.SIGSTOP}
PATIENCE_S = 120.0
MAX_DRAWS = 5
SECOND_S = 1.0  # time for the second Ctrl-C to end everything


def run_interrupts(
    place: Place,
    count: int,
    seed: int,
    lengths: dict[str, dict[str, float]],
    read: Callable[[str], Any],
    note: Callable[[str, Any], None],
) -> list[str]:
    """Press Ctrl-C `count` times, each in its own command; print the outcomes and return the problems.

    `lengths`: seconds of the parts of a loaded command, and of one that a worker has to load. `read` returns a stored
    press, `note` stores one.
    """
    presses: list[Press] = []
    for number in range(count):
        noted = read(f"press {number}")
        press = Press(**noted) if noted else press_one(place, number, random.Random(f"{seed} Ctrl-C {number}"), lengths)
        if not noted:
            note(f"press {number}", asdict(press))
            print(press, flush=True)
        presses.append(press)
    for server in SERVERS:
        for times in (1, 2):
            own = [press for press in presses if (press.server, press.times) == (server, times)]
            if own:
                longest = max(press.ended_s for press in own)
                print(f"Ctrl-C x{times}, {server}: {len(own)} pressed, wrong: {sum(bool(p.problems) for p in own)}, "
                      f"over after at most {longest:.2f} s", flush=True)  # fmt: skip
    return [problem for press in presses for problem in press.problems]


@dataclass
class Press:
    """One or two Ctrl-C in one command, with the outcome."""

    number: int
    server: str
    times: int
    at_s: float = 0.0  # after the command's start
    ended_s: float = 0.0  # from the last of them to the command's end
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"Ctrl-C {self.number:3} x{self.times} {self.server:17} {self.at_s:5.1f} s after its start: over after "
            f"{self.ended_s:.2f} s  {'; '.join(self.problems) or 'ok'}"
        )


def press_one(place: Place, number: int, drawn: random.Random, lengths: dict[str, dict[str, float]]) -> Press:
    """Press Ctrl-C at a random moment; draws again if the command has already ended."""
    press = Press(number, SERVERS[number % len(SERVERS)], 1 + number // len(SERVERS) % 2)
    length = sum(lengths["replay" if press.server.startswith("running") else "replay by a worker"].values())
    for _ in range(MAX_DRAWS):
        press.at_s = drawn.uniform(0.0, length)
        found = interrupt(place, press.server, press.times, press.at_s, drawn.uniform(0.1, 1.0))
        if press.server == "running, killed":
            place.bring_back("server")
        elif press.server.startswith("running"):
            place.kill("server", signal.SIGCONT)
        if place.out.exists():
            place.out.rename(place.folder / f"interrupted-{number:02}-{time.time_ns()}")
        if found is not None:
            press.ended_s, press.problems = found
            return press
    press.problems = [f"Ctrl-C {number} came too late every time"]
    return press


def interrupt(place: Place, server: str, times: int, seconds: float, pause: float) -> tuple[float, list[str]] | None:
    """Return seconds from the last Ctrl-C to the end, and the problems; None if the command had already ended."""
    kind, _, trouble = server.partition(", ")
    command = place.command("replay") if kind == "embedded" else place.fork("replay")
    pid = command.pid if isinstance(command, Forked) else command.process.pid
    time.sleep(seconds)
    if trouble:
        place.kill("embedded" if kind == "embedded" else "server", SIGNALS[trouble])
        time.sleep(pause)
    if command.is_over():
        return None
    for press in range(times):
        if press:
            time.sleep(pause)
        pressed = time.monotonic()
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGINT)  # as a terminal does it
    end = command.finish(PATIENCE_S)
    ended_s, said = time.monotonic() - pressed, command.log.read_text()
    problems = [] if end in ("exit 130", f"exit {-signal.SIGINT}") else [f"ended with {end}: {said[-300:]!r}"]
    if times > 1 and ended_s > SECOND_S:
        problems.append(f"alive for {ended_s:.1f} s after the second")
    if said.count("maxview: interrupted") != 1 or "Traceback" in said:
        problems.append(f"said {said[-500:]!r}")
    problems += find_left(place)
    for directory in Store(place.out).runs() if place.out.exists() else ():
        directory.read_record()  # raises for a half-written record
    return ended_s, problems
