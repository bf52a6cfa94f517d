"""Follows one job of a cluster from its creation to its end: streams its log, finds the cause of its end.

A job is a JobSet, whose pods run the trainer on the hosts of the slices.
"""

import time
from collections.abc import Generator, Iterator
from copy import copy
from datetime import datetime
from functools import partial
from hashlib import sha256
from queue import Empty

from configs.backends.cluster import ClusterSettings
from tasks.launch import patience
from tasks.launch.backend import LOST_LINE, LaunchError
from tasks.launch.cluster import poll_job
from tasks.launch.cluster.handle import ClusterHandle
from tasks.launch.cluster.job_view import JobView
from tasks.launch.cluster.kube import connect
from tasks.launch.cluster.naming import SLICE_JOB
from tasks.launch.cluster.podlog import Gap, LogCursor, PodLog, fetch_from_cloud
from tasks.launch.cluster.poll_job import fetch_job, wait_until_gone
from tasks.launch.gathered_log import GatheredLog
from tasks.launch.patience import NotAnswering, retry_outages
from tasks.launch.queued_attempt import End, QueuedAttempt
from tasks.launch.supervise import TIMED_OUT
from tasks.records.plan import JobCause, RunPlan
from tasks.resolve.trainers.maxtext_metrics import TENSORBOARD
from tasks.scrape.dialects.maxtext.patterns import PATTERNS
from tasks.scrape.wrappings.exports import count_steps
from tasks.store.directories import RunDirectory

OWN_FILES = ("metrics.jsonl", "program.json")  # files that maxview's trainer writes into the run's folder
SETTLE_S = 6.0  # after the job's end, until the cluster's objects certainly show its cause
BLOCKED_S = 60.0  # after failures to start a container, such as an unreachable registry, until the job is given up
# names of the patterns for messages of a dying trainer
_DYING = ("traceback", "fatal", "fatal_tsl", "fatal_python", "fatal_cpp", "aborted")
MAX_HOSTS = 8  # with more hosts, only the first and last are named
OTHERS_LINES = "200"  # number of last lines read from the failed pod's log, if it is not the first pod


class ClusterAttempt(QueuedAttempt):
    """One job, which a flow follows from its creation to its end."""

    def __init__(self, plan: RunPlan, directory: RunDirectory, handle: ClusterHandle) -> None:
        super().__init__(directory)
        assert isinstance(plan.launch, ClusterSettings)
        self._plan, self._settings, self._handle = plan, plan.launch, handle
        self._api = connect(handle.context, handle.namespace)
        self._view = JobView(exists=True)
        self._cursor = LogCursor()
        self._pump: PodLog | None = None  # reads the log of the first pod; None: that pod has not started
        self._node: str | None = None  # node of the first pod; None: not scheduled yet
        self._hosts: tuple[str, ...] = ()  # the nodes of all pods
        self._before = (
            directory.log.read_bytes() if directory.log.exists() else b""
        )  # which an earlier flow has written
        self._epoch_s = time.time() - time.monotonic()  # computed once, because the clock may be set while a job runs

    def is_gone(self) -> bool:
        self._view = retry_outages(lambda: fetch_job(self._api, self._handle.job_name))
        return not self._view.exists

    def follow(self, poll_s: float) -> Generator[bytes, None, JobCause | None]:
        try:
            return (yield from super().follow(poll_s))
        finally:
            if self._pump is not None:
                self._pump.close()

    def read_state(self) -> bool:
        self._view = view = fetch_job(self._api, self._handle.job_name)
        if view.first is not None:
            self._node = view.first.node
        if len(view.hosts) > len(self._hosts):  # deleted pods disappear one by one
            self._hosts = view.hosts
            self.place = describe_place(self._settings.cluster, self._hosts)
        self._open_log()
        has_log = self._pump is not None
        return view.over or view.cause is not None or (has_log and (view.evicted is not None or not view.pods))

    def read_last(self, log: GatheredLog, limit: JobCause | None) -> Generator[bytes, None, End]:
        cause, exit_code = (limit, TIMED_OUT) if limit is not None else (self._cause(), self._view.exit_code)
        others = self._lines_of_another()
        if self._view.exists and self._view.terminal is None:
            # ends the other pods, which would wait forever; the pods get their grace period to save a checkpoint
            retry_outages(lambda: self._api.delete_jobset(self._handle.job_name))
        yield from self._last_lines(log)
        if log.empty and self._before:  # the pod's log is gone: keep the earlier flow's text
            log.keep()
            yield self._before
        yield from log.begin()
        if others:
            log.reopen()
        for line in others:
            yield from log.add(line)
        return cause, exit_code

    def clean_up(self) -> None:
        """Download the run's small files, and wait until the job's pods have ended."""
        fetch_own_files(self._plan, self.directory)
        if self._view.terminal is None:
            wait_until_gone(self._api, [self._handle.job_name], self._handle.grace_s)

    def is_complete(self) -> bool:
        if self.over_since is None:
            return False
        has_exit = self._view.terminal is not None and self._view.exit_code is not None
        blocked = not self._view.over and self._pump is None
        return has_exit or time.monotonic() - self.over_since > (BLOCKED_S if blocked else SETTLE_S)

    def _cause(self) -> JobCause | None:
        view = self._view
        if view.cause is not None:
            return view.cause
        if view.evicted is not None and self._pump is not None and view.terminal is None:
            return view.evicted
        if view.exit_code is not None:
            # if a node is lost, the trainers on the other hosts fail soon after with an exit code
            return self._lost_node(*(pod.node for pod in view.pods if pod.running)) if view.exit_code else None
        if not view.exists:
            return JobCause(type="Deleted", message=f"the JobSet {self._handle.job_name} was deleted")
        return self._lost_node(self._node) or JobCause(
            type="PodGone", message=f"the pods are gone and left no exit code: {view.message}"
        )

    def _lost_node(self, *nodes: str | None) -> JobCause | None:
        found = (retry_outages(partial(self._api.lost_node, node)) for node in nodes if node is not None)
        return next(filter(None, found), None)

    def _open_log(self) -> None:
        first = self._view.first
        if self._pump is None and first is not None and first.started is not None:
            self._pump = PodLog(self._api, first.name, first.container, self._cursor, self._first_has_ended)
            self._pump.start()

    def _first_has_ended(self) -> bool:
        first = self._view.first
        return first is not None and first.exit_code is not None

    def read_new(self, log: GatheredLog, poll_s: float) -> Iterator[bytes]:
        if self._pump is None:
            time.sleep(poll_s)
            return
        try:
            piece = self._pump.pieces.get(timeout=poll_s)
            while piece is not None:
                yield from self._add(log, piece)
                piece = self._pump.pieces.get_nowait()
            self._pump.pieces.put(None)  # so that the next call sees the end too
            if self._pump.refused is not None:
                raise self._pump.refused
            time.sleep(poll_s)
        except Empty:
            return

    def _add(self, log: GatheredLog, piece: bytes | Gap) -> Iterator[bytes]:
        if isinstance(piece, Gap):
            yield from self._fill(log, piece, "the kubelet has rotated the log")
        else:
            yield from log.add(piece)

    def _last_lines(self, log: GatheredLog) -> Iterator[bytes]:
        """Yield the rest of the first pod's log, from the pod or, if the pod is gone or silent, from Cloud Logging."""
        left = poll_job.LAST_LINES_S + (self._handle.grace_s if self._view.terminal is None else 0)
        self._open_log()
        ended, looked = self._pump is None, time.monotonic()
        while self._pump is not None and not ended and left > 0:
            self.look()
            now = time.monotonic()
            left, looked = left - (now - looked if self.silent_since is None else 0.0), now  # an outage does not count
            if self._view.first is None:
                self._pump.close()
            try:
                while (piece := self._pump.pieces.get(timeout=patience.LOOK_EVERY_S / 4)) is not None:
                    yield from self._add(log, piece)
                ended = True
            except Empty:
                continue
        if self._pump is not None:
            self._pump.close()
        view = self._view  # read again: the machine may have disappeared since the loop's last look
        has_begun = (
            self._pump is not None or view.terminal is not None or view.cause is not None or view.evicted is not None
        )
        if (view.first is None and has_begun and not log.closed) or not ended:
            why = "the pod is gone" if view.first is None else "the log of the pod could not be read"
            yield from self._fill(log, Gap(copy(self._cursor), None), why)

    def _fill(self, log: GatheredLog, gap: Gap, why: str) -> Iterator[bytes]:
        """Yield the lines of a gap from Cloud Logging. If Cloud Logging has none, yield a note about the gap instead.

        If the log's start is missing, the earlier flow's text is yielded before that note. If the log lacks its
        end, and the exit code is not 0, the note reports no missing lines: a restarted run trains those steps again.
        """
        try:
            lines = fetch_from_cloud(self._settings, f"{self._handle.job_name}-{SLICE_JOB}-0-0-", gap)
            reason = "Cloud Logging has none of them"
        except LaunchError as error:
            lines, reason = [], " ".join(str(error).split())
        for line in lines:
            yield from log.add(line)
        if lines:
            return
        if gap.after is None and log.empty and self._before:  # the earlier flow's text contains the start
            yield from log.add(self._before)
        if gap.before is None and self._view.exit_code != 0:
            note = f"maxview: the log ends here: {why}, and {reason}"
        else:
            after, before = gap.after or "the start", gap.before or "the end"
            note = LOST_LINE.format(after=after, before=before, why=f"{why}, and {reason}")
        yield from log.add(note.encode() + b"\n")

    def _lines_of_another(self) -> list[bytes]:
        """Return the last lines of the pod that failed first, with a title; [] if this pod left no exit code.

        [] also if no pod failed, or if it is the pod of process 0: its log is read anyway. Leaves out steps and
        evaluations, which every host prints.
        """
        failed, first = self._view.failed, self._view.first
        if failed is None or not failed.exit_code or (first is not None and failed.name == first.name):
            return []
        try:
            with self._api.log(failed.name, failed.container, tailLines=OTHERS_LINES) as pieces:
                text = b"".join(pieces)
        except NotAnswering as error:
            text = f"maxview: these lines cannot be read: {error}\n".encode()
        said = f"maxview: the pod {failed.name} failed first, with exit code {failed.exit_code}; its last lines:\n"
        lines = [line for line in text.splitlines(keepends=True) if not line.startswith(b"XPK Start:")]
        return [said.encode(), *filter(None, map(_last_words, lines))]

    def find_limit(self) -> JobCause | None:
        if self._passed_limit() is not None:
            # read again, because the last view may be stale
            self._view = retry_outages(lambda: fetch_job(self._api, self._handle.job_name))
        return self._passed_limit()

    def _passed_limit(self) -> JobCause | None:
        view = self._view
        now = self._epoch_s + time.monotonic()
        if view.over:
            return None
        if view.started is None:
            asked, limit = _epoch(view.created) or self._handle.created, self._settings.start_limit_s
            if now - asked <= limit:
                return None
            waiting = f"; reason for waiting, from Kueue: {view.message}" if view.message else ""
            return JobCause(type="StartLimit", message=f"no machines within {limit} s (start_limit_s){waiting}")
        limit = self._plan.time_limit_s
        if now - (_epoch(view.started) or now) <= limit:
            return None
        return JobCause(type="TimeLimit", message=f"still running after {limit} s (time_limit_s)")


def fetch_own_files(plan: RunPlan, directory: RunDirectory) -> None:
    """Download the metrics and other small files of a run from the bucket, if the store is in a bucket.

    Checkpoints stay in the bucket.
    """
    for name in {*OWN_FILES, plan.files.metrics}:
        directory.place.fetch(f"runs/{directory.run_name}/{name}")
    directory.place.fetch_folder(f"runs/{directory.run_name}/{TENSORBOARD}")


def describe_place(cluster: str, hosts: tuple[str, ...]) -> str:
    """Return a text that names a run's hosts. Texts are equal only for runs on the same hosts."""
    if len(hosts) <= MAX_HOSTS:
        return f"cluster {cluster}: {', '.join(hosts)}"
    digest = sha256("\n".join(hosts).encode()).hexdigest()[:8]
    return f"cluster {cluster}: {hosts[0]} to {hosts[-1]}, {len(hosts)} hosts ({digest})"


def _last_words(line: bytes) -> bytes:
    """Return a log line. If it is about a step or an evaluation, return only the error message at its end, or b""."""
    if not count_steps(line.decode("utf-8", "replace")) and not PATTERNS["eval"].search(line):
        return line
    begins = [match.start() for name in _DYING if (match := PATTERNS[name].search(line))]
    return line[min(begins) :] if begins else b""


def _epoch(time_text: str | None) -> float | None:
    return None if time_text is None else datetime.fromisoformat(time_text).timestamp()
