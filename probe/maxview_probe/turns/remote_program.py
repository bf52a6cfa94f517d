"""Times a program in another process: two arms with other software take turns by the token that the driver sends.

    python …/start.py remote_program FOLDER

The process prints one JSON object per line of its standard input: `load`, `turn N`, `unload`.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from maxview_probe.inject import START
from maxview_probe.turns.process_end import describe_end
from maxview_probe.turns.timed_program import OutOfMemory, TimedProgram, Turn


class RemoteProgram:
    """See `TimedArm`. The other process computes only while a method of this object waits for it."""

    def __init__(self, folder: Path, python: str, environment: Mapping[str, str]):
        """Start the process and compile there. Raises ValueError and OutOfMemory, as `TimedProgram`."""
        self.process = subprocess.Popen(
            [python, "-W", "ignore", str(START), "turns.remote_program", str(folder)],
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.peak_bytes: int | None = None
        self.compile_s = float(self._read()["compile_s"])

    def load(self) -> float:
        """See `TimedArm`."""
        found = self._ask("load")
        self.peak_bytes = found["peak_bytes"]
        return float(found["seconds"])

    def turn(self, steps: int) -> Turn:
        """See `TimedArm`."""
        found = self._ask(f"turn {steps}")
        return Turn(found["wall_s"], found["cpu_s"])

    def unload(self) -> None:
        """See `TimedArm`."""
        if self.process.poll() is None:
            self._ask("unload")

    def _ask(self, words: str) -> Any:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(words + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # `_read` says how the process ended
        return self._read()

    def _read(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise ValueError(f"its process {describe_end(self.process.wait())}")
        found = json.loads(line)
        if "error" in found:
            raise (OutOfMemory if found["memory"] else ValueError)(found["error"])
        return found


def main(argv: Sequence[str]) -> int:
    """Answer the lines of standard input until it is closed."""
    try:
        program = TimedProgram(Path(argv[0]))
    except (ValueError, OutOfMemory) as error:
        _answer({"error": str(error), "memory": isinstance(error, OutOfMemory)})
        return 0
    _answer({"compile_s": program.compile_s})
    for line in sys.stdin:
        word, *rest = line.split()
        try:
            if word == "load":
                _answer({"seconds": program.load(), "peak_bytes": program.peak_bytes})
            elif word == "turn":
                _answer(program.turn(int(rest[0]))._asdict())
            else:
                program.unload()
                _answer({})
        except (ValueError, OutOfMemory) as error:
            _answer({"error": str(error), "memory": isinstance(error, OutOfMemory)})
    return 0


def _answer(found: Mapping[str, Any]) -> None:
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
