"""Finds the checkpoints that a run was started or continued from, in the words of MaxText and of Orbax."""

import re
from dataclasses import dataclass, field, replace

from tasks.records import Restore, Source
from tasks.scrape.window import Window

_STEP = re.compile(rb"/(\d{1,18})(?:/[A-Za-z_][\w.-]*)?/?\Z")


@dataclass(frozen=True)
class _Reading:
    """One checkpoint being read back."""

    source: Source
    step: int | None
    path: str | None = None
    origin: str = ""
    seconds: float | None = None
    finished: Source | None = None


@dataclass
class RestoreLog:
    """What was read back, in order. MaxText asks for a step, and Orbax then tells of the same reading with its path."""

    _found: list[_Reading] = field(default_factory=list)

    def take(self, name: str, match: re.Match[bytes], window: Window) -> None:
        """Note one anchor; those that are none of a restore's are ignored."""
        source = window.source(match.start())
        match name:
            case "restore_asked":
                origin = "this run" if match[1] else (match[4] or b"").decode()
                self._begin(_Reading(source, int(match[1] or match[2] or match[3]), origin=origin))
            case "restore_from":
                origin = "parameters" if b"param" in match[1] else "state"
                self._begin(_Reading(source, _step_of(match[2]), match[2].decode("utf-8", "replace"), origin))
            case "restore_path":
                self._name(_Reading(source, _step_of(match[1]), match[1].decode("utf-8", "replace")))
            case "restore_done":
                path = match[2] or match[4] or match[5]
                seconds = match[1] or match[3]
                self._end(_step_of(path), path, float(seconds) if seconds else None, source)
            case "restore_event":
                self._end(int(match[1]), b"%s/%s" % (match[2], match[1]), None, source)

    def _begin(self, reading: _Reading) -> None:
        self._found.append(reading)

    def _name(self, reading: _Reading) -> None:
        """The path of what was asked for before, or a reading of its own."""
        last = self._found[-1] if self._found else None
        if last is not None and last.finished is None and last.step in (reading.step, None):
            self._found[-1] = replace(last, path=last.path or reading.path, step=reading.step)
        else:
            self._found.append(reading)

    def _end(self, step: int | None, path: bytes, seconds: float | None, source: Source) -> None:
        for index in range(len(self._found) - 1, -1, -1):
            found = self._found[index]
            if found.step == step or (found.step is None and step is None):
                self._found[index] = replace(
                    found,
                    path=found.path or path.decode("utf-8", "replace"),
                    seconds=found.seconds if seconds is None else seconds,
                    finished=found.finished or source,
                )
                return
        self._found.append(_Reading(source, step, path.decode("utf-8", "replace"), "", seconds, source))

    def restores(self, last_step: int) -> tuple[Restore, ...]:
        """What was read back; `last_step`: the offset of the last step line, -1 without one."""
        return tuple(
            Restore(
                step=found.step,
                path=found.path,
                origin=found.origin,
                finished=found.finished is not None or found.source.offset < last_step,
                seconds=found.seconds,
                line=found.source.line,
                offset=found.source.offset,
                finished_line=found.finished.line if found.finished else None,
            )
            for found in self._found
        )

    @property
    def found(self) -> list[tuple[int, str | None, Source]]:
        """Step, path and place of each that names a step."""
        return [(found.step, found.path, found.source) for found in self._found if found.step is not None]


def _step_of(path: bytes) -> int | None:
    match = _STEP.search(path)
    return int(match[1]) if match else None
