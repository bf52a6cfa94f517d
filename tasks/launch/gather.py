"""Turns pieces of a pod's log into a run's log file, whose last lines say how the job ended, whoever ended it."""

import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from tasks.launch import local
from tasks.launch.backend import CAUSE_LINE
from tasks.launch.supervise import stamp
from tasks.records import JobCause

_FRAME_END = (b"XPK End:", b"EXIT_CODE=")  # what xpk's wrapper prints last


class GatheredLog:
    """A run's log file, held by one flow alone. What an earlier flow wrote is replaced once there is more to write.

    The lines that close a frame are held back until the job's end is known, for the cause belongs before them.
    Raises LaunchError if another flow gathers the same log.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = local.open_locked(path)
        self._held: list[bytes] = []
        self._broken = False  # the last line has no line break
        self.empty = True

    @property
    def closed(self) -> bool:
        """Whether the trainer's frame has come to its end."""
        return any(line.startswith(b"EXIT_CODE=") for line in self._held)

    def reopen(self) -> None:
        """Forget the end of the frame: it is not the one that counts."""
        self._held = []

    def keep(self) -> None:
        """Go on behind what an earlier flow wrote."""
        self.empty = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)

    def add(self, line: bytes) -> Iterator[bytes]:
        """Write a line; yields what was written now, which may be nothing, or more than it."""
        if line.startswith(_FRAME_END):
            self._held.append(line)
            return
        held, self._held = self._held, []  # it was the trainer that printed those
        for item in (*held, line):
            yield self._write(item)

    def close_frame(self, cause: JobCause | None, exit_code: int | None) -> Iterator[bytes]:
        """Write the cause, if the platform ended the job, and the end of the frame, if need be with another code."""
        if cause is not None:
            message = " ".join(cause.message.split())
            yield self._write(CAUSE_LINE.format(type=cause.type.replace(":", " "), message=message).encode() + b"\n")
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
