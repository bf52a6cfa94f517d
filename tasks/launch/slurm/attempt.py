"""Follows one start of a run to its end: reads its log from the shared file system, finds the cause of its end."""

import re
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

from configs.backends.slurm import Slurm
from tasks.launch.gathered_log import GatheredLog
from tasks.launch.logs import CHUNK
from tasks.launch.queued_attempt import End, QueuedAttempt
from tasks.launch.slurm.allocation import read_run
from tasks.launch.slurm.client import ENDS, JobState
from tasks.launch.slurm.handle import SlurmHandle
from tasks.records.plan import JobCause
from tasks.store.directories import RunDirectory

LATE_S = 60.0  # after a job's end, until the last lines of its log must be visible: NFS caches for that long
BLOCKED_S = 30.0  # for which a job waits with a reason in BLOCKED, until it is given up
# reasons for which a job waits until the job or the cluster is changed: https://slurm.schedmd.com/job_reason_codes.html
BLOCKED = re.compile(
    "PartitionTimeLimit|PartitionNodeLimit|PartitionConfig|BadConstraints|InvalidAccount|InvalidQOS|QOSTimeLimit|"
    "DependencyNeverSatisfied|launch_failed_requeued_held|"
    r"(Assoc|QOS)Max\w+Per(Job|Node)(Limit)?"
)
OTHERS_LINES = 200  # number of last lines read from the log of the process that failed first
BY_SLURM = b"slurmstepd"  # start of SLURM's own messages, which may come after the trainer's last line
_FAILED_TASK = re.compile(rb"srun: error: \S+: tasks? (\d+): ")


class GrowingLog:
    """A job's output file, read as it grows. Each read opens the file anew, because only then does NFS show new bytes.

    `exit_code`: in the last line that the trainer's supervisor wrote; None if it has not written it.
    `is_out_of_memory`: whether SLURM wrote that it ends the job because of its memory.
    `failed_tasks`: numbers of the processes that failed, in the order in which srun reported them.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.exit_code: int | None = None
        self.is_out_of_memory = False
        self.failed_tasks: list[int] = []
        self._position, self._rest = 0, b""

    def read(self, *, last: bool = False) -> Iterator[bytes]:
        """Yield the new complete lines. last: also an incomplete last line."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._position)
                while piece := file.read(CHUNK):
                    self._position += len(piece)
                    *lines, self._rest = (self._rest + piece).split(b"\n")
                    for line in lines:
                        self._note_end(line)
                        yield line + b"\n"
        except (FileNotFoundError, NotADirectoryError):  # not visible yet
            pass
        if last and self._rest:
            yield self._rest

    @property
    def is_empty(self) -> bool:
        """Whether nothing was read."""
        return not self._position

    def _note_end(self, line: bytes) -> None:
        if failed := _FAILED_TASK.match(line):
            self.failed_tasks.append(int(failed[1]))
        self.is_out_of_memory |= line.startswith(BY_SLURM) and b"xceeded job memory limit" in line
        if line.startswith(b"EXIT_CODE=") and line[10:].isdigit():
            self.exit_code = int(line[10:])
        elif not line.startswith(BY_SLURM):
            self.exit_code = None


class SlurmAttempt(QueuedAttempt):
    """One start of a run, which a flow follows from its submission to its end. `end` ends its job."""

    def __init__(self, settings: Slurm, directory: RunDirectory, handle: SlurmHandle, end: Callable[[], None]) -> None:
        super().__init__(directory)
        self._settings, self._handle, self._end = settings, handle, end
        self._growing = GrowingLog(Path(handle.output))
        self._state: JobState | None = None  # None: SLURM has forgotten the job, or was not asked yet
        self._blocked_since: float | None = None  # monotonic time; None: the job does not wait in vain
        self._nodes = ""
        self._reasons: set[str] = set()  # for waiting, that the log contains already

    def is_gone(self) -> bool:
        return not self._growing.path.exists()

    def read_state(self) -> bool:
        self._state = state = read_run(self._handle)
        waits = state is not None and state.state == "PENDING"
        blocked = state is not None and waits and bool(BLOCKED.fullmatch(state.reason))
        self._blocked_since = (self._blocked_since or time.monotonic()) if blocked else None
        if state is not None and not waits and state.state != "CONFIGURING" and state.nodes:
            self._nodes = state.nodes
            self.place = f"partition {self._settings.partition}: {self._nodes}"
        return state is None or state.over

    def is_complete(self) -> bool:
        code, since = self._growing.exit_code, self.over_since
        return code == 0 or (since is not None and (code is not None or time.monotonic() - since > LATE_S))

    def read_new(self, log: GatheredLog, poll_s: float) -> Iterator[bytes]:
        yield from self._add_new(log)
        yield from self._note_wait(log)
        time.sleep(poll_s)

    def read_last(self, log: GatheredLog, limit: JobCause | None) -> Generator[bytes, None, End]:
        if limit is not None:
            self._end()  # it waits in vain, or SLURM has requeued it
        yield from self._add_new(log, last=True)
        cause = limit or self._find_cause()
        yield from log.begin()
        if self._growing.exit_code != 0:
            yield from self._add_others(log)
        return cause, self._find_exit_code(cause)

    def clean_up(self) -> None:
        """Delete the job's output, which the log now contains."""
        self._growing.path.unlink(missing_ok=True)

    def _add_new(self, log: GatheredLog, *, last: bool = False) -> Iterator[bytes]:
        for line in self._growing.read(last=last):
            if line.startswith(BY_SLURM):
                yield from log.note(line.decode("utf-8", "replace").rstrip("\n"))
            else:
                yield from log.add(line)

    def _note_wait(self, log: GatheredLog) -> Iterator[bytes]:
        state = self._state
        if state is None or state.state != "PENDING" or state.reason in (*self._reasons, "", "None"):
            return
        self._reasons.add(state.reason)
        remedy = f"; `scontrol release {state.job_id}` releases it" if state.reason.startswith("JobHeld") else ""
        yield from log.note(f"maxview: job {state.job_id} waits in the queue: {state.reason}{remedy}")

    def find_limit(self) -> JobCause | None:
        state, limit = self._state, self._settings.start_limit_s
        if state is None or state.state != "PENDING":
            return None
        if state.restarts:
            return JobCause(type="REQUEUED", message=f"SLURM has requeued job {state.job_id}")
        if self._blocked_since is not None and time.monotonic() - self._blocked_since > BLOCKED_S:
            never = f"SLURM never starts job {state.job_id}: {state.reason}"
            return JobCause(type="CannotStart", message=f"{never}; `sinfo --long` shows the limits of the partitions")
        if time.time() - self._handle.created <= limit:
            return None
        waiting = f"no nodes within {limit} s (start_limit_s); reason for waiting, from SLURM: {state.reason}"
        return JobCause(type="StartLimit", message=waiting)

    def _find_cause(self) -> JobCause | None:
        state, number, code = self._state, self._handle.job_id, self._growing.exit_code
        if code == 0:
            return None
        if state is None:
            lost = f"SLURM has forgotten job {number}, and its log has no end"
            return JobCause(type="JobLost", message=lost) if code is None else None
        if ENDS.get(state.state, "") is None and self._growing.is_out_of_memory:  # of a cluster without cgroups
            state = state.replace(state="OUT_OF_MEMORY")
        if ENDS.get(state.state, "preempted") is not None:
            reason = "" if state.reason in ("", "None", state.state) else f" ({state.reason})"
            where = f"job {number} in partition {self._settings.partition} on {self._nodes or 'no node'}"
            return JobCause(type=state.state, message=f"{where}{reason}")
        if code is None and self._growing.is_empty:
            folder = self._growing.path.parent
            message = f"job {number} wrote no log on {self._nodes}: is {folder} on a file system that the nodes share?"
            return JobCause(type="NoLog", message=message)
        return None

    def _find_exit_code(self, cause: JobCause | None) -> int | None:
        if self._growing.exit_code is not None or cause is not None or self._state is None:
            return self._growing.exit_code
        return self._state.exit_code or None  # 0 without the supervisor's last line is no success

    def _add_others(self, log: GatheredLog) -> Iterator[bytes]:
        """Add the last lines of the process that failed first, with a title, unless it is process 0."""
        for task in self._growing.failed_tasks[:1]:
            path = self._growing.path.with_name(f"{self._growing.path.name}.task{task}")
            if path.exists():
                lines = path.read_bytes().splitlines(keepends=True)[-OTHERS_LINES:]
                log.reopen()
                yield from log.note(f"maxview: process {task} failed first; its last lines:")
                for line in lines:
                    yield from log.add(line)
