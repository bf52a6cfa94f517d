"""Runs plans as workloads of a cluster that xpk made, and starts them again where a machine was taken from them."""

import os
import time
from collections.abc import Callable, Generator, Iterator
from datetime import datetime
from pathlib import Path
from queue import Empty
from typing import Any

from configs.launch import Xpk
from tasks.launch import local
from tasks.launch.backend import Restarted
from tasks.launch.config import config_text
from tasks.launch.create import create_workload
from tasks.launch.errors import LaunchError
from tasks.launch.gather import GatheredLog
from tasks.launch.jobset import TAKEN_AWAY, JobView, seconds_between, view_job
from tasks.launch.kube import KubeApi, NotAnswering, choose_context, connect
from tasks.launch.logs import read_exit_code, set_aside
from tasks.launch.podlog import LogCursor, PodLog, fetch_from_cloud
from tasks.launch.supervise import TIMED_OUT
from tasks.launch.supervised import READ_BYTES
from tasks.launch.workload import attempt_of, create_argv, family_of, name_attempt, shell_line
from tasks.records import JobCause, JobStatus, RunPlan, XpkHandle
from tasks.store import RunDirectory

LOOK_EVERY_S = 2.0
PATIENCE_S = 900.0  # how long the API server may not answer: a control plane's upgrade takes minutes
SETTLE_S = 6.0  # from a pod's end to the end of everything that the cluster has to say about it
BLOCKED_S = 60.0  # how long a container may fail to start, for example because its registry is not reached
LAST_LINES_S = 30.0  # for the rest of the log of a pod that has ended
OTHERS_LINES = "200"  # of the log of the pod that failed, where that is not the first one
TAKEN = TAKEN_AWAY | {"NodeGone", "PodGone"}  # causes for which a run is started again


class OnCluster:
    """Jobs as workloads. Their truth is in the cluster: a flow that finds a handle needs nothing else to go on."""

    def launch(
        self,
        plan: RunPlan,
        directory: RunDirectory,
        *,
        extra_argv: tuple[str, ...] = (),
        keep: Callable[[XpkHandle], Any] = lambda _: None,
        tries: int = 1,
    ) -> XpkHandle:
        """See Backend. Waits until the workload exists, not until it runs."""
        settings = _settings(plan)
        context = choose_context(settings)
        api, family = connect(context, settings.namespace), family_of(plan)
        os.close(local.open_locked(directory.log))
        set_aside(directory.log)
        earlier = directory.read_handle()
        before = attempt_of(earlier.job_name, family) if isinstance(earlier, XpkHandle) else None
        # never a name that was taken before: logs of the past are found by it
        attempt = 1 + max([before or 0, *(number for number, _ in _attempts(api, family))])
        handle = XpkHandle(
            backend="xpk",
            job_name=name_attempt(family, attempt),
            family=family,
            namespace=settings.namespace,
            context=context,
            created=time.time(),
            tries=tries,
            extra_argv=extra_argv,
            grace_s=settings.grace_s,
            log=str(directory.log),
        )
        keep(handle)
        command = shell_line(plan, config_text(plan), extra_argv)
        try:
            create_workload(
                create_argv(plan, settings, handle.job_name, command), lambda: api.jobset(handle.job_name) is not None
            )
        except BaseException:  # a workload may be there all the same
            self.stop(handle)
            raise
        return handle

    def attach(self, plan: RunPlan, directory: RunDirectory, handle: XpkHandle | None) -> XpkHandle | None:
        """See Backend."""
        if handle is None:
            return None
        view = _look(connect(handle.context, handle.namespace), handle.job_name)
        if view.exists and view.terminal != "Failed" and view.failed is None:
            return handle
        if not view.exists and read_exit_code(directory.log) == 0:
            return handle
        self.stop(handle)
        return None

    def status(self, handle: XpkHandle) -> JobStatus:
        """See Backend."""
        view = _look(connect(handle.context, handle.namespace), handle.job_name)
        state = "ended" if view.over else "running" if view.started else "queued"
        return JobStatus.model_validate({
            "state": state,
            "exit_code": view.exit_code,
            "cause": view.cause,
            "queued_s": seconds_between(view.created, view.started),
            "ran_s": seconds_between(view.started, view.finished),
        })  # fmt: skip

    def stop(self, handle: XpkHandle) -> None:
        """See Backend. Ends every attempt of the run; raises LaunchError if the cluster cannot be told."""
        api = connect(handle.context, handle.namespace)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                names = [name for _, name in _attempts(api, handle.family)]
                for name in names:
                    api.delete_jobset(name)
                break
            except NotAnswering as error:
                if time.monotonic() > deadline:
                    raise LaunchError(
                        f"{error}; the job may still run, `kubectl delete jobset -n {handle.namespace} "
                        f"{handle.job_name}` ends it"
                    ) from error
                time.sleep(LOOK_EVERY_S)
        _wait_until_gone(api, names, handle.grace_s)

    def follow(
        self, plan: RunPlan, directory: RunDirectory, handle: XpkHandle, *, poll_s: float
    ) -> Iterator[bytes | Restarted]:
        """See Backend."""
        settings = _settings(plan)
        while True:
            cause = yield from Attempt(plan, settings, directory, handle).follow(poll_s)
            if cause is None or not _is_taken(cause) or handle.tries >= settings.attempts:
                return
            self.stop(handle)
            handle = self.launch(
                plan,
                directory,
                extra_argv=handle.extra_argv,
                keep=directory.write_handle,
                tries=handle.tries + 1,
            )
            yield Restarted(job_name=handle.job_name, attempt=handle.tries, cause=cause)


class Attempt:
    """One workload, from its creation to its end."""

    def __init__(self, plan: RunPlan, settings: Xpk, directory: RunDirectory, handle: XpkHandle) -> None:
        self._plan, self._settings, self._handle = plan, settings, handle
        self._log_path = directory.log
        self._api = connect(handle.context, handle.namespace)
        self._view = JobView(exists=True)
        self._cursor = LogCursor()
        self._pump: PodLog | None = None
        self._node: str | None = None
        self._silent_since: float | None = None

    def follow(self, poll_s: float) -> Generator[bytes, None, JobCause | None]:
        """The log as it comes; returns why the platform ended the job, None if it did not."""
        if not _look_patiently(self._api, self._handle.job_name).exists and read_exit_code(self._log_path) is not None:
            yield from _read_whole(self._log_path)  # it ended, and was deleted since
            return None
        before = self._log_path.read_bytes() if self._log_path.exists() else b""
        try:
            with GatheredLog(self._log_path) as log:
                cause, exit_code = yield from self._until_end(log, poll_s)
                others = self._lines_of_another()
                if self._view.exists and self._view.terminal is None:
                    self._api.delete_jobset(self._handle.job_name)  # what still runs of it waits in vain
                yield from self._last_lines(log)
                if log.empty and before:  # nothing of it is there any more: what an earlier flow has read stays
                    log.keep()
                    yield before
                if others:
                    log.reopen()
                for line in others:
                    yield from log.add(line)
                yield from log.close_frame(cause, exit_code)
        finally:
            if self._pump is not None:
                self._pump.close()
        if not self._view.exists or self._view.terminal is None:
            _wait_until_gone(self._api, [self._handle.job_name], self._handle.grace_s)
        return cause

    def _until_end(self, log: GatheredLog, poll_s: float) -> Generator[bytes, None, tuple[JobCause | None, int | None]]:
        looked = 0.0
        settled: float | None = None
        while True:
            yield from self._drain(log, poll_s)
            if time.monotonic() - looked < LOOK_EVERY_S:
                continue
            self._look()
            looked = time.monotonic()
            limit = self._passed_limit()
            if limit is not None:
                self._api.delete_jobset(self._handle.job_name)  # its pods save what they can
                return limit, TIMED_OUT
            if self._is_over():
                settled = settled or time.monotonic()
                known = self._view.terminal is not None and self._view.exit_code is not None
                blocked = not self._view.over and self._pump is None
                if known or time.monotonic() - settled > (BLOCKED_S if blocked else SETTLE_S):
                    return self._cause(), self._view.exit_code
            else:
                settled = None
            self._open_log()

    def _is_over(self) -> bool:
        view = self._view
        vanished = self._pump is not None and not view.pods
        return view.over or vanished or view.cause is not None or (view.evicted is not None and self._pump is not None)

    def _cause(self) -> JobCause | None:
        view = self._view
        if view.cause is not None:
            return view.cause
        if view.evicted is not None and self._pump is not None and view.terminal is None:
            return view.evicted
        if view.exit_code is not None:
            return None
        if not view.exists:
            return JobCause(type="Deleted", message=f"somebody has deleted the workload {self._handle.job_name}")
        if self._node is not None and not self._api.node_exists(self._node):
            return JobCause(type="NodeGone", message=f"the node {self._node} of the first pod has left the cluster")
        return JobCause(type="PodGone", message=f"the pods are gone and left no exit code: {view.message}")

    def _look(self) -> None:
        """See how the job is doing. Raises LaunchError once the API server has not answered for too long."""
        try:
            self._view = _look(self._api, self._handle.job_name)
            self._silent_since = None
        except NotAnswering as error:
            self._silent_since = self._silent_since or time.monotonic()
            if time.monotonic() - self._silent_since > PATIENCE_S:
                raise LaunchError(f"{error}, for {PATIENCE_S:g} s now; the same command again goes on") from error
        if self._view.first is not None:
            self._node = self._view.first.node

    def _open_log(self) -> None:
        first = self._view.first
        if self._pump is None and first is not None and first.started is not None:
            self._pump = PodLog(self._api, first.name, first.container, self._cursor, self._first_has_ended)
            self._pump.start()

    def _first_has_ended(self) -> bool:
        first = self._view.first
        return first is not None and first.exit_code is not None

    def _drain(self, log: GatheredLog, poll_s: float) -> Iterator[bytes]:
        if self._pump is None:
            time.sleep(poll_s)
            return
        try:
            line = self._pump.pieces.get(timeout=poll_s)
            while line is not None:
                yield from log.add(line)
                line = self._pump.pieces.get_nowait()
            self._pump.pieces.put(None)  # for whoever looks next
            time.sleep(poll_s)
        except Empty:
            return

    def _last_lines(self, log: GatheredLog) -> Iterator[bytes]:
        """The rest of the first pod's log, from the pod or, where that is gone, from Cloud Logging."""
        deadline = time.monotonic() + LAST_LINES_S + (self._handle.grace_s if self._view.terminal is None else 0)
        self._open_log()
        while self._pump is not None and time.monotonic() < deadline:
            self._look()
            if self._view.first is None:
                self._pump.close()
            try:
                line = self._pump.pieces.get(timeout=LOOK_EVERY_S / 4)
                while line is not None:
                    yield from log.add(line)
                    line = self._pump.pieces.get_nowait()
                break
            except Empty:
                continue
        if self._pump is not None:
            self._pump.close()
        began = self._pump is not None or self._view.terminal is not None
        if self._view.first is None and began and not log.closed:
            yield from self._from_cloud(log)

    def _from_cloud(self, log: GatheredLog) -> Iterator[bytes]:
        try:
            lines = fetch_from_cloud(self._settings, f"{self._handle.job_name}-slice-job-0-0-", self._cursor)
        except LaunchError as error:
            yield from log.add(f"maxview: the log ends here: {' '.join(str(error).split())}\n".encode())
            return
        for line in lines:
            yield from log.add(line)

    def _lines_of_another(self) -> list[bytes]:
        """The last lines of the pod that failed, where that is not the first, which can only say that it waited."""
        failed, first = self._view.failed, self._view.first
        if failed is None or not failed.exit_code or (first is not None and failed.name == first.name):
            return []
        try:
            with self._api.log(failed.name, failed.container, tailLines=OTHERS_LINES) as pieces:
                text = b"".join(pieces)
        except NotAnswering as error:
            text = f"maxview: they cannot be had: {error}\n".encode()
        said = f"maxview: the pod {failed.name} failed first, with exit code {failed.exit_code}; its last lines:\n"
        return [said.encode(), *(line for line in text.splitlines(keepends=True) if not line.startswith(b"XPK Start:"))]

    def _passed_limit(self) -> JobCause | None:
        view = self._view
        now = time.time()
        if view.over:
            return None
        if view.started is None:
            asked, limit = _epoch(view.created) or self._handle.created, self._settings.start_limit_s
            if now - asked <= limit:
                return None
            waiting = f"; the queue says: {view.message}" if view.message else ""
            return JobCause(type="StartLimit", message=f"no machines within {limit} s (start_limit_s){waiting}")
        limit = self._plan.time_limit_s
        if now - (_epoch(view.started) or now) <= limit:
            return None
        return JobCause(type="TimeLimit", message=f"still running after {limit} s (time_limit_s)")


def _settings(plan: RunPlan) -> Xpk:
    if plan.xpk is None:
        raise LaunchError(f"{plan.run_name}: its plan names no cluster")
    return plan.xpk


def _is_taken(cause: JobCause) -> bool:
    return cause.type in TAKEN or cause.type.startswith("Evicted (")


def _attempts(api: KubeApi, family: str) -> list[tuple[int, str]]:
    """(number, name) of the workloads of a run."""
    names = [str(item["metadata"]["name"]) for item in api.jobsets()]
    return [(number, name) for name in names if (number := attempt_of(name, family)) is not None]


def _look(api: KubeApi, name: str) -> JobView:
    jobset = api.jobset(name)
    pods = api.pods(name)
    return view_job(jobset, pods, api.workloads(name) if jobset is not None else [])


def _look_patiently(api: KubeApi, name: str) -> JobView:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return _look(api, name)
        except NotAnswering:
            if time.monotonic() > deadline:
                raise
            time.sleep(LOOK_EVERY_S)


def _wait_until_gone(api: KubeApi, names: list[str], grace_s: float) -> None:
    """Wait until the pods have ended too: whoever starts the run again must not meet them at the checkpoint."""
    deadline = time.monotonic() + grace_s + LAST_LINES_S
    while time.monotonic() < deadline:
        try:
            if not any(api.jobset(name) or api.pods(name) for name in names):
                return
        except NotAnswering:
            pass  # asked again below
        time.sleep(LOOK_EVERY_S / 4)


def _read_whole(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(READ_BYTES):
            yield chunk


def _epoch(time_text: str | None) -> float | None:
    return None if time_text is None else datetime.fromisoformat(time_text).timestamp()
