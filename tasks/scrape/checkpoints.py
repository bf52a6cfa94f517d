"""Follows the life of each checkpoint through the lines of Orbax: announced, blocking part, background part, commit."""

import re
from dataclasses import dataclass, field
from datetime import datetime

from tasks.records import CheckpointEvent, Source
from tasks.scrape.prefix import iso_time, prefix_of_text
from tasks.scrape.window import Window


@dataclass
class _Save:
    """One save under way. `done` is the offset from which on it no longer competes with training."""

    step: int
    source: Source
    time: str | None
    path: str | None = None
    blocking_s: float | None = None
    background_s: float | None = None
    arrays: int | None = None
    committed_line: int | None = None
    done: int | None = None


@dataclass
class CheckpointLog:
    """The saves of a log in the order of their start."""

    saves: list[_Save] = field(default_factory=list)

    def take(self, name: str, match: re.Match[bytes], window: Window) -> _Save | None:
        """Note one anchor; returns the save it belongs to, or None if it is none of a checkpoint's."""
        match name:
            case "saving":
                save = self._begin(int(match[1]), match, window)
            case "save_announced":
                # MaxText says so once Orbax has taken the work over; logs without Orbax's own lines have only this
                save = self._of(int(match[1])) or self._begin(int(match[1]), match, window)
            case "save_path":
                save = self._open(int(match[2])) or self._begin(int(match[2]), match, window)
                save.path = match[1].decode("utf-8", "replace")
            case "save_event":
                save = self._of(int(match[1])) or self._begin(int(match[1]), match, window)
                save.path = save.path or f"{match[2].decode('utf-8', 'replace')}/{int(match[1])}"
            case "save_blocked":
                save = self._open(int(match[3])) or self._begin(int(match[3]), match, window)
                save.blocking_s = float(match[1] or match[2])
            case "save_arrays" if self.saves and self.saves[-1].arrays is None:
                save = self.saves[-1]
                save.arrays = int(match[1])
            case "save_background":
                # Orbax waits for one save before it starts the next: the oldest that is not done is meant
                found = next((s for s in self.saves if s.background_s is None), None)
                if found is None:
                    return None
                save = found
                save.background_s = float(match[1])
                save.done = window.base + match.end()
            case "save_committed":
                save = self._open(int(match[2])) or self._begin(int(match[2]), match, window)
                source = window.source(match.start())
                save.committed_line = source.line
                save.path = save.path or match[1].decode("utf-8", "replace")
                save.done = save.done or source.offset
            case _:
                return None
        return save

    def _begin(self, step: int, match: re.Match[bytes], window: Window) -> _Save:
        prefix = prefix_of_text(window.data, match.start())
        save = _Save(step, window.source(match.start()), prefix.time if prefix else None)
        self.saves.append(save)
        return save

    def _of(self, step: int) -> _Save | None:
        """The newest save of a step."""
        return next((save for save in reversed(self.saves) if save.step == step), None)

    def _open(self, step: int) -> _Save | None:
        """The newest save of a step, unless it was committed: a rewound run saves a step again."""
        save = self._of(step)
        return save if save is not None and save.committed_line is None else None

    def in_flight(self, begin: int, end: int) -> bool:
        """Whether a save was under way at any point of the log between two offsets."""
        return any(save.source.offset < end and (save.done is None or save.done > begin) for save in self.saves)

    def events(self, *, first_day: datetime | None, process: int | None, ended: bool) -> tuple[CheckpointEvent, ...]:
        """The checkpoints. Only the first process prints the commit, so only its log can show that there was none."""
        return tuple(
            CheckpointEvent(
                step=save.step,
                path=save.path,
                started=iso_time(save.time, first_day),
                blocking_s=save.blocking_s,
                background_s=save.background_s,
                committed=True if save.committed_line is not None else (False if ended and process == 0 else None),
                arrays=save.arrays,
                line=save.source.line,
                offset=save.source.offset,
                committed_line=save.committed_line,
            )
            for save in self.saves
        )
