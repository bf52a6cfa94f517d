"""Collects checkpoints and restores from Orbax's lines, in all wordings since 2024.

The states of a checkpoint: announced → blocking part done → background part done → committed → validated on all hosts →
restored. A failed save has the state `failed`; `not_visible` means that the log of this host cannot show the commit. A
deleted checkpoint keeps its state, and `retired_line` is set. The announcement (`Started an asynchronous checkpoint
save`, an event with `'event_type': 'save'`) is printed when the save starts and does not prove the commit. Only the
primary host prints the commit (`Finished saving checkpoint`), so the logs of other hosts do not show the commit; with
`primary_host=None`, each host prints it. Every host prints that the save has finished on all hosts (`Save Finalize is
done on all hosts`).
"""

import re
from dataclasses import dataclass, field
from datetime import datetime

from tasks.records.checkpoint_proof import CheckpointEvent, CheckpointState, Restore
from tasks.scrape.prefixes import iso_time, prefix_before
from tasks.scrape.window import Window, text_of

RECENT = 16  # newest saves to which a line without a step may refer: more than Orbax has in flight at once
_STEP = re.compile(r"/(\d{1,18})(?:/[A-Za-z_][\w.-]*)?/?\Z")


class Save(CheckpointEvent, frozen=False):
    """A save whose lines are being read. Its times have the form of MaxText's prefixes: `MMDD hh:mm:ss.ffffff`."""

    background: bool = False  # the background part is done
    done: int | None = None  # offset of the first line that shows that the save no longer slows training, if any

    def decide_state(self, *, visible: bool) -> CheckpointState:
        """Return the last state that the log shows. visible: the log's host prints commits or is unknown."""
        if self.restored_line is not None:
            return "restored"
        if self.committed_line is not None:
            return "committed" if self.validated_line is None else "validated"
        if self.failed_line is not None:
            return "failed"
        if not visible and (self.background or self.validated_line is not None):
            return "not_visible"
        if self.background:
            return "background_done"
        return "announced" if self.blocking_s is None else "blocking_done"


@dataclass
class CheckpointLog:
    """Collects the saves of a run, in order of their first lines."""

    saves: list[Save] = field(default_factory=list)
    primary: int | None = 0  # process number of the host that commits; None: each host commits
    _newest: dict[int, Save] = field(default_factory=dict)  # step → its newest save

    def take(self, name: str, match: re.Match[bytes], window: Window) -> None:
        end, line = window.base + match.end(), window.source(match.start()).line
        recent = self.saves[-RECENT:]
        match name:
            case "primary_host":
                self.primary = None if match[1] == b"None" else int(match[1])
            case "saving":
                self._begin(int(match[1]), match, window)
            case "save_announced":
                # Orbax's lines about the same save, if any, come first
                self._find_or_begin(int(match[1]), match, window)
            case "save_path":
                save = self._newest.get(int(match[2]))
                if save is None or save.committed_line is not None:  # a restarted run saves the step once more
                    save = self._begin(int(match[2]), match, window)
                save.path = text_of(match[1])
            case "save_event":
                save = self._find_or_begin(int(match[1]), match, window)
                save.path = save.path or f"{text_of(match[2])}/{int(match[1])}"
            case "save_blocked":
                self._find_or_begin(int(match[3]), match, window).blocking_s = float(match[1] or match[2])
            case "save_arrays" if self.saves and self.saves[-1].arrays is None:
                self.saves[-1].arrays = int(match[1])
            case "save_background":
                # Orbax finishes saves in order, so this line belongs to the oldest unfinished save
                if (oldest := next((save for save in recent if not save.background), None)) is not None:
                    oldest.background, oldest.done = True, oldest.done or end
                    oldest.background_s = float(match[1]) if match[1] else None
            case "save_total":
                save = self._find_or_begin(int(match[2] or match[4]), match, window)
                save.total_s, save.done = float(match[1] or match[3]), save.done or end
            case "save_synchronous":
                save = self._find_or_begin(int(match[3]), match, window)
                save.total_s = float(match[1] or match[2])
                save.blocking_s = save.total_s if save.blocking_s is None else save.blocking_s
                save.background, save.done = True, save.done or end
            case "save_committed":
                save = self._find_or_begin(int(match[2]), match, window)
                save.committed_line, save.committed_at = line, prefix_before(window, match.start())[0]
                save.path = save.path or text_of(match[1])
                save.done = save.done or window.base + match.start()
            case "save_hosts" if (oldest := next((s for s in recent if s.validated_hosts is None), None)) is not None:
                oldest.validated_hosts = int(match[1])
            case "save_finalized" if (found := self._newest.get(int(match[1]))) is not None:
                found.validated_line, found.background, found.done = line, True, found.done or end
            case "save_failed" if (found := self._newest.get(int(match[1]))) is not None:
                found.failed_line, found.done = line, found.done or end
            case "save_deleted" if (found := self._newest.get(int(match[1] or match[2]))) is not None:
                found.retired_line = line

    def restored(self, read: Restore) -> None:
        """Mark the checkpoint that a restore reads as restored, if this log contains the checkpoint's save."""
        for save in reversed(self.saves):
            if save.step == read.step and save.offset < read.offset and _same_place(save.path, read.path):
                save.restored_line = read.line
                return

    def _begin(self, step: int, match: re.Match[bytes], window: Window) -> Save:
        place = window.place(match.start())
        self._newest[step] = Save(step=step, started=prefix_before(window, match.start())[0], **place)
        self.saves.append(self._newest[step])
        return self._newest[step]

    def _find_or_begin(self, step: int, match: re.Match[bytes], window: Window) -> Save:
        """Return the newest save of a step; if there is none, begin a save at the matched line."""
        return self._newest.get(step) or self._begin(step, match, window)

    def in_flight(self, begin: int, end: int) -> bool:
        """Whether a save was in flight at any point between two offsets of the log."""
        return any(save.offset < end and (save.done is None or save.done > begin) for save in self.saves)

    def events(self, *, first_day: datetime | None, process: int | None, ended: bool) -> tuple[CheckpointEvent, ...]:
        """Return the checkpoints. process: number of the host process that printed the log; None if unknown.

        Without a commit, `committed` is False if the log has ended and this process prints commits; else it is None.
        """
        commits = process is not None and self.primary in (None, process)
        return tuple(
            CheckpointEvent(
                **save.model_dump(exclude={"background", "done"}) | {
                    "state": save.decide_state(visible=commits or process is None),
                    "started": iso_time(save.started, first_day),
                    "committed": True if save.committed_line is not None else (False if ended and commits else None),
                    "committed_at": iso_time(save.committed_at, first_day),
                    "validated": save.validated_line is not None,
                }
            )
            for save in self.saves
        )  # fmt: skip


@dataclass
class RestoreLog:
    """Collects restores in order. For each restore, MaxText prints the step or the path, then Orbax prints the path."""

    restores: list[Restore] = field(default_factory=list)

    def take(self, name: str, match: re.Match[bytes], window: Window) -> None:
        place = window.place(match.start())
        match name:
            case "restore_asked":
                origin = "this run" if match[1] else text_of(match[4])
                self.restores.append(Restore(step=int(match[1] or match[2] or match[3]), origin=origin, **place))
            case "restore_from":
                origin, path = "parameters" if b"param" in match[1] else "state", text_of(match[2])
                self.restores.append(Restore(step=_step_of(path), path=path, origin=origin, **place))
            case "restore_path":
                path, last = text_of(match[1]), self.restores[-1:]
                read = Restore(step=_step_of(path), path=path, **place)
                # whether MaxText announced this restore
                if last and not last[0].finished and last[0].step in (read.step, None):
                    read = last[0].replace(path=last[0].path or read.path, step=read.step)
                    self.restores.pop()
                self.restores.append(read)
            case "restore_done":
                path, seconds = text_of(match[2] or match[4] or match[5]), match[1] or match[3]
                self._end(Restore(step=_step_of(path), path=path, seconds=float(seconds) if seconds else None, **place))
            case "restore_event":
                self._end(Restore(step=int(match[1]), path=f"{text_of(match[2])}/{text_of(match[1])}", **place))

    def _end(self, read: Restore) -> None:
        """Mark the last restore of this step as finished; first adds the restore if it was not announced."""
        steps = [restore.step for restore in reversed(self.restores)]
        if read.step not in steps:
            self.restores.append(read)
            steps = [read.step]
        index = -1 - steps.index(read.step)
        restore = self.restores[index]
        self.restores[index] = restore.replace(
            path=restore.path or read.path,
            seconds=restore.seconds if read.seconds is None else read.seconds,
            finished=True,
            finished_line=restore.finished_line or read.line,
        )

    def events(self, last_step: int) -> tuple[Restore, ...]:
        """Return the restores; `last_step`: offset of the last step line, -1 without one."""
        return tuple(
            # a restore that steps follow has finished
            read.replace(finished=True) if read.offset < last_step else read
            for read in self.restores
        )


def _step_of(path: str) -> int | None:
    match = _STEP.search(path)
    return int(match[1]) if match else None


def _same_place(one: str | None, other: str | None) -> bool:
    """Whether two paths may be the same checkpoint: either may be unknown, relative, or end with an item's name."""
    if one is None or other is None:
        return True
    one, other = (re.sub(r"(/\d+)/[A-Za-z_][\w.-]*\Z", r"\1", path.rstrip("/")) for path in (one, other))
    return one.endswith(other) or other.endswith(one)
