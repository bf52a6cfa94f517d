"""Writes a run's log file from the lines of its job, with the cause of the job's end and the exit code at the end."""

import os
from collections.abc import Iterator
from pathlib import Path

from tasks.launch.backend import CAUSE_LINE, LaunchError
from tasks.launch.logs import open_locked
from tasks.launch.supervise import stamp
from tasks.records.plan import JobCause
from tasks.store.atomic import explain_full

_FRAME_END = (b"XPK End:", b"EXIT_CODE=")  # starts of the last lines, which a job's wrapper prints


class GatheredLog:
    """A run's log file, locked by one flow. The first new line replaces an earlier flow's text.

    Holds back the last lines (`XPK End:`, `EXIT_CODE=`) until the job's end is known, to write the cause before them.
    Raises LaunchError if another flow writes the same log, or if the disk is full.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._descriptor = path, open_locked(path)
        self._held: list[bytes] = []  # possible last lines, not written yet
        self._broken = False  # whether the last line has no line break
        self.empty = True  # whether this flow has neither written nor kept text
        self._has_lines = False  # whether the text contains lines of the job

    @property
    def closed(self) -> bool:
        """Whether the pod's log has ended: its line with the exit code was added."""
        return any(line.startswith(b"EXIT_CODE=") for line in self._held)

    def reopen(self) -> None:
        """Discard the held last lines, because more lines will follow."""
        self._held = []

    def keep(self) -> None:
        """Keep the earlier flow's text: later lines are appended to it."""
        self.empty, self._has_lines = False, True

    def close(self) -> None:
        """Release the lock."""
        os.close(self._descriptor)

    def add(self, line: bytes) -> Iterator[bytes]:
        """Write a line and yield the bytes written. Holds a possible last line back until another line follows."""
        self._has_lines = True
        if line.startswith(_FRAME_END):
            self._held.append(line)
            return
        held, self._held = self._held, []  # the held lines were not the last lines: the trainer printed them
        for item in (*held, line):
            yield self._write(item)

    def begin(self) -> Iterator[bytes]:
        """Write the frame's first line if the job has written no line: without it, a log is of no known format."""
        if not self._has_lines:
            yield from self.note(f"XPK Start: {stamp()}")

    def note(self, line: str) -> Iterator[bytes]:
        """Write maxview's own line before the held last lines."""
        yield self._write(f"{line}\n".encode())

    def close_frame(self, cause: JobCause | None, exit_code: int | None) -> Iterator[bytes]:
        """Write the cause, if any, then the held last lines. exit_code: replaces the one there; None: keeps it."""
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
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError as error:
            raise LaunchError(explain_full(self._path, error) or f"{self._path}: {error.strerror}") from error
        self._broken = not text.endswith(b"\n")
        return text
