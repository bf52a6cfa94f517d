"""Writes the lines of a pod's log into a run's log file, and closes its frame with the cause and exit code."""

import os
from collections.abc import Iterator
from pathlib import Path

from tasks.launch.backend import CAUSE_LINE
from tasks.launch.logs import open_locked
from tasks.launch.supervise import stamp
from tasks.records import JobCause

_FRAME_END = (b"XPK End:", b"EXIT_CODE=")  # the last lines of xpk's wrapper


class GatheredLog:
    """A run's log file, locked by one flow. The first new line replaces an earlier flow's text.

    Holds back the lines that close a frame until the job's end is known: the cause belongs before them.
    Raises LaunchError if another flow gathers the same log.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = open_locked(path)
        self._held: list[bytes] = []
        self._broken = False  # the last line has no line break
        self.empty = True

    @property
    def closed(self) -> bool:
        """Whether the trainer's frame is closed."""
        return any(line.startswith(b"EXIT_CODE=") for line in self._held)

    def reopen(self) -> None:
        """Discard the held end of the frame: more of the log will follow."""
        self._held = []

    def keep(self) -> None:
        """Append to the earlier flow's text."""
        self.empty = False

    def close(self) -> None:
        """Release the lock."""
        os.close(self._descriptor)

    def add(self, line: bytes) -> Iterator[bytes]:
        """Write a line; yields the bytes written now: none for a held line, more when held lines are released."""
        if line.startswith(_FRAME_END):
            self._held.append(line)
            return
        held, self._held = self._held, []  # the trainer itself printed them
        for item in (*held, line):
            yield self._write(item)

    def note(self, line: str) -> Iterator[bytes]:
        """Write a line of the launcher before the end of the frame."""
        yield self._write(f"{line}\n".encode())

    def close_frame(self, cause: JobCause | None, exit_code: int | None) -> Iterator[bytes]:
        """Write the platform's cause, if any, and the end of the frame, with `exit_code` if it differs."""
        if cause is not None:
            message = " ".join(cause.message.split())
            yield from self.note(CAUSE_LINE.format(type=cause.type.replace(":", " "), message=message))
        held, self._held = [line for line in self._held if not line.startswith(b"EXIT_CODE=") or exit_code is None], []
        if exit_code is not None:
            if not held:
                held.append(f"XPK End: {stamp()}\n".encode())
            held.append(f"EXIT_CODE={exit_code}\n".encode())
        for line in held:
            yield self._write(line)

    def _write(self, text: bytes) -> bytes:
        if self.empty:
            os.ftruncate(self._descriptor, 0)
            self.empty = False
        if self._broken and text.startswith((b"maxview:", *_FRAME_END)):
            text = b"\n" + text
        rest = text
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]
        self._broken = not text.endswith(b"\n")
        return text
