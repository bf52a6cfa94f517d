"""Runs jobs as JobSets of a Kubernetes cluster."""

from collections.abc import Callable
from functools import partial
from typing import Any

from configs.backends.cluster import ClusterSettings
from tasks.launch.cluster.attempt import ClusterAttempt
from tasks.launch.cluster.handle import STORED, ClusterHandle
from tasks.launch.cluster.job_view import CAUSE_KINDS
from tasks.launch.cluster.kube import KubeApi, choose_context, connect
from tasks.launch.cluster.naming import as_pods_see, attempt_of, attempts_of, check_out, family_of, name_attempt
from tasks.launch.cluster.poll_job import fetch_job, wait_until_gone
from tasks.launch.logs import read_exit_code
from tasks.launch.patience import retry_outages
from tasks.launch.queued_jobs import QueuedJobs
from tasks.records.plan import JobCause, RunPlan
from tasks.store.directories import RunDirectory

# Creates the JobSet of an attempt from the plan as its pods see it, and the arguments after the plan's. Raises
# LaunchError if the JobSet does not exist afterwards.
type Create = Callable[[KubeApi, RunPlan, tuple[str, ...], ClusterHandle], None]


class OnCluster(QueuedJobs[ClusterHandle]):
    """Runs jobs as JobSets."""

    death_kinds = CAUSE_KINDS

    def __init__(self, create: Create) -> None:
        self._create = create

    def prepare(self, plan: RunPlan, directory: RunDirectory, common: dict[str, Any]) -> ClusterHandle:
        settings = plan.launch
        assert isinstance(settings, ClusterSettings)
        check_out(plan, settings, directory)
        context, family = choose_context(settings), family_of(plan)
        api = connect(context, settings.namespace)
        earlier = directory.read_handle(STORED)
        before = attempt_of(earlier.job_name, family) if earlier else None
        # Names are not reused, because Cloud Logging finds past logs by name.
        attempt = 1 + max([before or 0, *(number for number, _ in retry_outages(lambda: attempts_of(api, family)))])
        return ClusterHandle(
            **common,
            job_name=name_attempt(family, attempt),
            family=family,
            namespace=settings.namespace,
            context=context,
            grace_s=settings.grace_s,
        )

    def submit(
        self, plan: RunPlan, directory: RunDirectory, handle: ClusterHandle, keep: Callable[[ClusterHandle], Any]
    ) -> ClusterHandle:
        seen, words = as_pods_see(plan, directory, handle.extra_argv)
        self._create(_api(handle), seen, words, handle)
        return handle

    def find_usable(self, directory: RunDirectory, handle: ClusterHandle) -> ClusterHandle | None:
        view = retry_outages(lambda: fetch_job(_api(handle), handle.job_name))
        runs = view.exists and view.terminal != "Failed" and view.failed is None
        return handle if runs or (not view.exists and read_exit_code(directory.log) == 0) else None

    def attempt(self, plan: RunPlan, directory: RunDirectory, handle: ClusterHandle) -> ClusterAttempt:
        return ClusterAttempt(plan, directory, handle)

    def find_restart(self, plan: RunPlan, directory: RunDirectory, cause: JobCause | None) -> JobCause | None:
        assert isinstance(plan.launch, ClusterSettings)
        if cause is not None:
            return cause if cause.type.startswith("Evicted (") else super().find_restart(plan, directory, cause)
        code = read_exit_code(directory.log)
        if code not in plan.launch.restart_on_exit_codes:
            return None
        return JobCause(type=f"ExitCode {code}", message="the target restarts runs with this exit code")

    def has_ended(self, handle: ClusterHandle) -> bool:
        return fetch_job(_api(handle), handle.job_name).over

    def end(self, handle: ClusterHandle) -> None:
        api = _api(handle)
        names = [name for _, name in retry_outages(lambda: attempts_of(api, handle.family))]
        for name in names:
            retry_outages(partial(api.delete_jobset, name))
        wait_until_gone(api, names, handle.grace_s)


def _api(handle: ClusterHandle) -> KubeApi:
    return connect(handle.context, handle.namespace)
