"""Runs a module of `maxview_probe` in a process with JAX, and passes on the progress that it prints."""

import re
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Event

from maxview_probe.inject import START
from maxview_probe.turns.process_end import describe_end

PROGRESS = "progress: "  # begins a line for people; the module prints it to standard error
FRAME = re.compile(r"\s*@ +0x|\*\*\* ")  # below the sentence of a failed check in C++
PAUSE_S = 0.25

type Say = Callable[[str], None]


def run_inside(
    name: str,
    module: str,
    files: tuple[Path, Path],
    *,
    python: str,
    environment: Mapping[str, str],
    output: Path,
    patience_s: float,
    say: Say,
    interrupt: Event | None = None,
) -> str:
    """Run a module until it ends; return "", or a sentence why it left no result.

    name: of the process in sentences. files: of its settings and its result. output: gets what it prints. interrupt:
    set by another thread, ends the process.
    """
    argv = [python, "-W", "ignore", str(START), module, *map(str, files)]
    ends = time.monotonic() + patience_s
    with output.open("wb") as opened, output.open(encoding="utf-8", errors="replace") as printed:
        try:
            process = subprocess.Popen(
                argv, env=dict(environment), stdin=subprocess.DEVNULL, stdout=opened, stderr=opened
            )
        except OSError as error:
            return f"{python} cannot be started: {error.strerror}"
        try:
            code = None
            while code is None and time.monotonic() < ends and not (interrupt and interrupt.is_set()):
                with suppress(subprocess.TimeoutExpired):
                    code = process.wait(PAUSE_S)
                for line in printed:
                    if line.startswith(PROGRESS):
                        say(line.removeprefix(PROGRESS).strip())
        finally:
            process.kill()
            process.wait()
    if code is None:
        return f"{name} took more than {patience_s:.0f} s"
    if not code and files[1].exists():
        return ""
    printed_lines = output.read_text(encoding="utf-8", errors="replace").splitlines()
    lines = [line.strip() for line in printed_lines if line.strip() and not FRAME.match(line)]
    last = lines[-1].removeprefix(PROGRESS)[:200] if lines else "it printed nothing"
    return f"{name} {describe_end(code) if code else 'left no result'} ({last})"
