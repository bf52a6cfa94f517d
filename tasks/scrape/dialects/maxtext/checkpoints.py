"""Follows the life of each checkpoint through the lines of Orbax, in its wordings from 2024 to today.

announced → blocking part done → background part done → committed → validated on all hosts → restored, or retired:
deleted by a manager that keeps only its newest ones. The announcement (`Started an asynchronous checkpoint save`, an
event with `'event_type': 'save'`) says nothing about the commit: it is printed when the save starts. Only the primary
host prints the commit (`Finished saving checkpoint`), which for the others is not visible; that the save is over on
all hosts (`Save Finalize is done on all hosts`) every host prints.
"""

import re
from dataclasses import dataclass, field
from datetime import datetime

from tasks.records import CheckpointEvent, CheckpointState, Source
from tasks.scrape.prefixes import iso_time, prefix_of_text
from tasks.scrape.window import Window

RECENT = 16  # saves that may be under way at once: many more than Orbax allows


@dataclass
class Save:
    """One save under way. `done` is the offset from which on it no longer competes with training."""

    step: int
    source: Source
    time: str | None
    path: str | None = None
    blocking_s: float | None = None
    background_s: float | None = None
    total_s: float | None = None
    arrays: int | None = None
    background: bool = False  # the background part is done, with or without its time
    committed: Source | None = None
    committed_time: str | None = None
    validated: Source | None = None
    hosts: int | None = None
    restored: Source | None = None
    failed: Source | None = None
    retired: Source | None = None
    done: int | None = None


@dataclass
class CheckpointLog:
    """The saves of a log in the order of their start."""

    saves: list[Save] = field(default_factory=list)
    primary: int | None = 0  # the host that commits; None: every host does for itself

    def take(self, name: str, match: re.Match[bytes], window: Window) -> None:
        """Note one anchor; those that are none of a save's are ignored."""
        end = window.base + match.end()
        match name:
            case "primary_host":
                self.primary = None if match[1] == b"None" else int(match[1])
            case "saving":
                self._begin(int(match[1]), match, window)
            case "save_announced":
                # MaxText says so once Orbax has taken the work over; logs without Orbax's own lines have only this
                _ = self._of(int(match[1])) or self._begin(int(match[1]), match, window)
            case "save_path":
                save = self._open(int(match[2])) or self._begin(int(match[2]), match, window)
                save.path = match[1].decode("utf-8", "replace")
            case "save_event":
                save = self._of(int(match[1])) or self._begin(int(match[1]), match, window)
                save.path = save.path or f"{match[2].decode('utf-8', 'replace')}/{int(match[1])}"
            case "save_blocked":
                self._known(int(match[3]), match, window).blocking_s = float(match[1] or match[2])
            case "save_arrays" if self.saves and self.saves[-1].arrays is None:
                self.saves[-1].arrays = int(match[1])
            case "save_background":
                # Orbax waits for one save before it starts the next: the oldest that is not done is meant
                if (oldest := next((save for save in self.saves[-RECENT:] if not save.background), None)) is not None:
                    oldest.background, oldest.done = True, oldest.done or end
                    oldest.background_s = float(match[1]) if match[1] else None
            case "save_total":
                save = self._known(int(match[2] or match[4]), match, window)
                save.total_s, save.done = float(match[1] or match[3]), save.done or end
            case "save_synchronous":
                save = self._known(int(match[3]), match, window)
                save.total_s = float(match[1] or match[2])
                save.blocking_s = save.total_s if save.blocking_s is None else save.blocking_s
                save.background, save.done = True, save.done or end
            case "save_committed":
                save = self._known(int(match[2]), match, window)
                save.committed = window.source(match.start())
                save.committed_time = _time(match, window)
                save.path = save.path or match[1].decode("utf-8", "replace")
                save.done = save.done or save.committed.offset
            case "save_hosts" if (
                oldest := next((s for s in self.saves[-RECENT:] if s.hosts is None), None)
            ) is not None:
                oldest.hosts = int(match[1])
            case "save_finalized" if (found := self._of(int(match[1]))) is not None:
                found.validated, found.background = window.source(match.start()), True
                found.done = found.done or end
            case "save_failed" if (found := self._of(int(match[1]))) is not None:
                found.failed, found.done = window.source(match.start()), found.done or end
            case "save_deleted" if (found := self._of(int(match[1] or match[2]))) is not None:
                found.retired = window.source(match.start())

    def restored(self, step: int, path: str | None, source: Source) -> None:
        """Note that a checkpoint was read back, if it is one of this log's: runs read each other's too."""
        for save in reversed(self.saves):
            if save.step == step and save.source.offset < source.offset and _same_place(save.path, path):
                save.restored = source
                return

    def _begin(self, step: int, match: re.Match[bytes], window: Window) -> Save:
        save = Save(step, window.source(match.start()), _time(match, window))
        self.saves.append(save)
        return save

    def _of(self, step: int) -> Save | None:
        """The newest save of a step."""
        return next((save for save in reversed(self.saves) if save.step == step), None)

    def _open(self, step: int) -> Save | None:
        """The newest save of a step, unless it was committed: a rewound run saves a step again."""
        save = self._of(step)
        return save if save is not None and save.committed is None else None

    def _known(self, step: int, match: re.Match[bytes], window: Window) -> Save:
        """The save of a step that one of its later lines is about, even if its commit stands before that line."""
        newest = self._of(step)
        return newest if newest is not None else self._begin(step, match, window)

    def in_flight(self, begin: int, end: int) -> bool:
        """Whether a save was under way at any point of the log between two offsets."""
        return any(save.source.offset < end and (save.done is None or save.done > begin) for save in self.saves)

    def events(self, *, first_day: datetime | None, process: int | None, ended: bool) -> tuple[CheckpointEvent, ...]:
        """The checkpoints. Only a host that commits prints it, so only its log can show that there was none."""
        commits = process is not None and self.primary in (None, process)
        return tuple(
            CheckpointEvent(
                step=save.step,
                state=_state(save, visible=commits or process is None),
                path=save.path,
                started=iso_time(save.time, first_day),
                blocking_s=save.blocking_s,
                background_s=save.background_s,
                total_s=save.total_s,
                committed=True if save.committed is not None else (False if ended and commits else None),
                validated=save.validated is not None,
                validated_hosts=save.hosts,
                arrays=save.arrays,
                line=save.source.line,
                offset=save.source.offset,
                committed_line=_line(save.committed),
                committed_at=iso_time(save.committed_time, first_day),
                validated_line=_line(save.validated),
                restored_line=_line(save.restored),
                failed_line=_line(save.failed),
                retired_line=_line(save.retired),
            )
            for save in self.saves
        )


def _state(save: Save, *, visible: bool) -> CheckpointState:
    if save.restored is not None:
        return "restored"
    if save.committed is not None:
        return "committed" if save.validated is None else "validated"
    if save.failed is not None:
        return "failed"
    if not visible and (save.background or save.validated is not None):
        return "not_visible"
    if save.background:
        return "background_done"
    return "announced" if save.blocking_s is None else "blocking_done"


def _same_place(one: str | None, other: str | None) -> bool:
    """Whether two paths may be the same: either may be unknown, relative, or end in the name of an item."""
    if one is None or other is None:
        return True
    one, other = (re.sub(r"(/\d+)/[A-Za-z_][\w.-]*\Z", r"\1", path.rstrip("/")) for path in (one, other))
    return one.endswith(other) or other.endswith(one)


def _time(match: re.Match[bytes], window: Window) -> str | None:
    """When the line of a match was written, as its prefix says."""
    prefix = prefix_of_text(window.data, match.start())
    return prefix.time if prefix else None


def _line(source: Source | None) -> int | None:
    return None if source is None else source.line
