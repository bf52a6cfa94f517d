"""Runs jobs as JobSets of a Kubernetes cluster, and restarts a job after it lost its machines."""

import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from etils import epath

from tasks.launch.backend import LaunchError, Restarted
from tasks.launch.cluster.attempt import Attempt
from tasks.launch.cluster.handle import ClusterHandle
from tasks.launch.cluster.job_view import TAKEN_AWAY
from tasks.launch.cluster.kube import KubeApi, choose_context, connect
from tasks.launch.cluster.naming import as_pods_see, attempt_of, attempts_of, check_out, family_of, name_attempt
from tasks.launch.cluster.poll_job import read_job, wait_until_gone
from tasks.launch.cluster.settings import ClusterSettings
from tasks.launch.logs import open_locked, read_exit_code, rename_earlier_log
from tasks.launch.patience import retry_outages
from tasks.records import JobCause, RunPlan
from tasks.store import RunDirectory

# Creates the JobSet of an attempt from the plan as its pods see it, and the arguments after the plan's. Raises
# LaunchError if the JobSet does not exist afterwards.
type Create = Callable[[KubeApi, RunPlan, tuple[str, ...], ClusterHandle], None]
TAKEN = TAKEN_AWAY | {"PodGone"}  # types of causes after which a run is restarted, as after each eviction by Kueue


class OnCluster:
    """Runs jobs as JobSets. Their state is in the cluster, so a flow needs only the handle to continue."""

    here = False

    def __init__(self, create: Create) -> None:
        self._create = create

    def find_checkpoint(self, plan: RunPlan, directory: RunDirectory, step: int) -> epath.Path:
        return epath.Path(directory.place.address_of(directory.path / str(plan.files.checkpoints) / str(step)))

    def launch(
        self,
        plan: RunPlan,
        directory: RunDirectory,
        *,
        extra_argv: tuple[str, ...] = (),
        keep: Callable[[ClusterHandle], Any] = lambda _: None,
        tries: int = 1,
    ) -> ClusterHandle:
        """Return once the JobSet exists; it may not run yet. tries: number of this start; 1: not a restart."""
        settings = _settings(plan)
        check_out(plan, settings, directory)
        context = choose_context(settings)
        api, family = connect(context, settings.namespace), family_of(plan)
        os.close(open_locked(directory.log))
        rename_earlier_log(directory.log)
        earlier = directory.read_handle()
        before = attempt_of(earlier.job_name, family) if isinstance(earlier, ClusterHandle) else None
        # Names are not reused, because Cloud Logging finds past logs by name.
        attempt = 1 + max([before or 0, *(number for number, _ in retry_outages(lambda: attempts_of(api, family)))])
        handle = ClusterHandle(
            backend=plan.backend,
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
        seen, words = as_pods_see(plan, directory, extra_argv)
        try:
            self._create(api, seen, words, handle)
        except BaseException:  # the JobSet may exist nevertheless
            self.stop(handle)
            raise
        return handle

    def attach(self, plan: RunPlan, directory: RunDirectory, handle: ClusterHandle | None) -> ClusterHandle | None:
        if handle is None:
            return None
        api = connect(handle.context, handle.namespace)
        view = retry_outages(lambda: read_job(api, handle.job_name))
        if view.exists and view.terminal != "Failed" and view.failed is None:
            return handle
        if not view.exists and read_exit_code(directory.log) == 0:
            return handle
        self.stop(handle)
        return None

    def has_ended(self, handle: ClusterHandle) -> bool:
        return read_job(connect(handle.context, handle.namespace), handle.job_name).over

    def stop(self, handle: ClusterHandle) -> None:
        """End every attempt of the run. Raises LaunchError if the cluster cannot be reached."""
        api = connect(handle.context, handle.namespace)
        try:
            names = [name for _, name in retry_outages(lambda: attempts_of(api, handle.family))]
            for name in names:
                retry_outages(partial(api.delete_jobset, name))
            wait_until_gone(api, names, handle.grace_s)
        except LaunchError as error:
            remedy = f"`kubectl delete jobset -n {handle.namespace} {handle.job_name}` ends it"
            raise LaunchError(f"{error}; the job may still run, {remedy}") from error

    def follow(
        self, plan: RunPlan, directory: RunDirectory, handle: ClusterHandle, *, poll_s: float
    ) -> Iterator[bytes | Restarted]:
        settings = _settings(plan)
        while True:
            cause = yield from Attempt(plan, settings, directory, handle).follow(poll_s)
            code = read_exit_code(directory.log)
            if cause is None and code in settings.restart_on_exit_codes:
                cause = JobCause(type=f"ExitCode {code}", message="the target restarts runs with this exit code")
            elif cause is not None and cause.type not in TAKEN and not cause.type.startswith("Evicted ("):
                return
            if cause is None or handle.tries >= settings.attempts:
                return
            directory.check_claim()  # if another machine took the run over, its job has the same name
            self.stop(handle)
            handle = self.launch(
                plan,
                directory,
                extra_argv=handle.extra_argv,
                keep=directory.write_handle,
                tries=handle.tries + 1,
            )
            yield Restarted(job_name=handle.job_name, attempt=handle.tries, cause=cause)


def _settings(plan: RunPlan) -> ClusterSettings:
    if not isinstance(plan.launch, ClusterSettings):
        raise LaunchError(f"{plan.run_name}: its plan names no cluster")
    return plan.launch
