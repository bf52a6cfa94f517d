"""Presses Ctrl-C once or twice at random moments of a command, whose server is well, killed or stopped."""

import os
import random
import signal
import time
from contextlib import suppress

import psutil

from benchmarks.chaos.place import Place, wait_until
from tasks.store import Store

# what is done to the server before: of the command's own, and of one that `maxview up` has started
SERVERS = ("embedded", "embedded, killed", "running", "running, killed", "running, stopped")
SIGNALS = {"killed": signal.SIGKILL, "stopped": signal.SIGSTOP}
PATIENCE_S = 120.0
MOST_DRAWS = 5


def run_interrupts(place: Place, count: int, seed: int, length: float) -> list[str]:
    """Press so many times within the `length` (seconds) of a command, and say what came of it; what was wrong."""
    wrong, took = [], []
    for number in range(count):
        drawn = random.Random(f"{seed} Ctrl-C {number}")
        server, times = SERVERS[number % len(SERVERS)], 1 + number // len(SERVERS) % 2
        for _ in range(MOST_DRAWS):
            seconds = drawn.uniform(0.0, length)
            found = interrupt(place, server, times, seconds, drawn.uniform(0.1, 1.0))
            place.kill("server", signal.SIGCONT)
            place.up()
            if place.out.exists():
                place.out.rename(place.folder / f"interrupted-{number:02}-{time.time_ns()}")
            if found is not None:
                break
        else:
            wrong.append(f"Ctrl-C {number} came too late every time")
            continue
        ended_s, problems = found
        took.append(ended_s)
        wrong += problems
        print(f"Ctrl-C {number:2} x{times} {server:17} {seconds:5.1f} s after its start: over after {ended_s:.1f} s  "
              f"{'; '.join(problems) or 'ok'}", flush=True)  # fmt: skip
    if took:
        print(f"Ctrl-C: {len(took)} pressed, wrong: {len(wrong)}, over after at most {max(took):.1f} s", flush=True)
    return wrong


def interrupt(place: Place, server: str, times: int, seconds: float, pause: float) -> tuple[float, list[str]] | None:
    """Seconds from the last Ctrl-C to the end, and what was wrong; None where the command had ended before."""
    kind, _, trouble = server.partition(", ")
    command = place.command("replay", embedded=kind == "embedded")
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
            os.killpg(command.process.pid, signal.SIGINT)  # as a terminal does it
    end = command.finish(PATIENCE_S)
    ended_s, said = time.monotonic() - pressed, command.log.read_text()
    problems = [] if end in ("exit 130", f"exit {-signal.SIGINT}") else [f"ended with {end}: {said[-300:]!r}"]
    if said.count("maxview: interrupted") != 1 or "Traceback" in said:
        problems.append(f"said {said[-500:]!r}")
    left: list[psutil.Process] = []

    def look() -> bool:
        left[:] = [*place.jobs(), *place.embedded()]
        return not left

    if not wait_until(look, 10):
        problems += [f"left running: {' '.join(process.cmdline())[:100]}" for process in left]
        for process in left:
            process.kill()
    for directory in Store(place.out).runs() if place.out.exists() else ():
        directory.read_record()  # raises where it is half written
    return ended_s, problems
