"""Turns what a cluster says of a JobSet, its pods and its workload into a job's state and the cause of its end."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeGuard

from configs.schema import Frozen
from tasks.records import DeathKind, JobCause

type Object = Mapping[str, Any]

# reasons of a pod, or of its condition DisruptionTarget, that say that its machine was taken away: nobody's mistake
# https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions
TAKEN_AWAY = {
    "Preempted", "Preempting", "PreemptionByScheduler", "PreemptionByKubeScheduler", "Evicted",
    "EvictionByEvictionAPI", "DeletionByTaintManager", "DeletionByPodGC", "TerminationByKubelet", "NodeShutdown",
    "Terminated", "Shutdown", "NodeLost", "NodeAffinity", "NodeGone",
}  # fmt: skip
# reasons for which a container never starts: waiting does not help
CANNOT_START = {
    "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError",
    "CreateContainerError", "RunContainerError", "CreateContainer", "StartError", "ContainerCannotRun",
}  # fmt: skip
# what kind of death each cause is; `StartLimit` and those after it are found by the launcher itself
CAUSE_KINDS: dict[str, DeathKind] = {
    **dict.fromkeys(TAKEN_AWAY, "preempted"),
    **dict.fromkeys(CANNOT_START, "configuration"),
    "OOMKilled": "host_oom",
    "StartLimit": "timeout",
    "TimeLimit": "timeout",
    "NodeGone": "preempted",
    "PodGone": "preempted",
    "Deleted": "killed",
}
JOB_INDEX = "jobset.sigs.k8s.io/job-index"
POD_INDEX = "batch.kubernetes.io/job-completion-index"


class PodView(Frozen):
    """One pod: which slice and host it is, and how its trainer is doing. Times are ISO 8601."""

    name: str
    place: tuple[int, int]
    container: str
    node: str | None
    running: bool
    exit_code: int | None
    started: str | None
    finished: str | None
    cause: JobCause | None  # why the platform ended it, or lets it not begin


class JobView(Frozen):
    """A job as the cluster shows it at one moment."""

    exists: bool
    terminal: Literal["Completed", "Failed"] | None = None
    message: str = ""  # of the terminal condition, or of why it waits
    created: str | None = None
    evicted: JobCause | None = None  # by Kueue, which will start it again by itself
    pods: tuple[PodView, ...] = ()  # by slice and host

    @property
    def first(self) -> PodView | None:
        """The pod of process 0, which writes the metrics and tells of the checkpoints."""
        return self.pods[0] if self.pods and self.pods[0].place == (0, 0) else None

    @property
    def failed(self) -> PodView | None:
        """The pod that failed first: the others were only ended because of it."""
        bad = [pod for pod in self.pods if pod.exit_code or (pod.cause and pod.cause.type in TAKEN_AWAY)]
        taken = [pod for pod in bad if pod.cause and pod.cause.type in TAKEN_AWAY]
        return min(taken or bad, key=lambda pod: (pod.finished or "9999", pod.place)) if bad else None

    @property
    def exit_code(self) -> int | None:
        """The trainer's own: that of the pod that failed first; 0 once the job is complete."""
        if self.failed is not None:
            return self.failed.exit_code
        return 0 if self.terminal == "Completed" or self._done else None

    @property
    def cause(self) -> JobCause | None:
        """Why the platform ended it or does not let it begin. A trainer's own failure has its cause in the log."""
        blocked = [pod.cause for pod in self.pods if pod.cause and pod.cause.type not in TAKEN_AWAY and not pod.running]
        if self.failed is not None:
            return self.failed.cause
        return blocked[0] if blocked else None

    @property
    def started(self) -> str | None:
        """When the first trainer process began."""
        return min((pod.started for pod in self.pods if pod.started), default=None)

    @property
    def finished(self) -> str | None:
        """When the last one ended, if all have."""
        ends = [pod.finished for pod in self.pods]
        return max(end for end in ends if end) if ends and all(ends) else None

    @property
    def over(self) -> bool:
        """Whether nothing more will come of it."""
        return not self.exists or self.terminal is not None or self.failed is not None or self._done

    @property
    def _done(self) -> bool:
        # without the first one, pods are being taken away
        return self.first is not None and all(pod.exit_code == 0 for pod in self.pods)


def view_job(jobset: Object | None, pods: Sequence[Object], workloads: Sequence[Object] | None) -> JobView:
    """The job that these objects of the API describe; `workloads` is None if they are not known.

    A JobSet that is being deleted does not exist: it only waits for the end of its pods.
    """
    views = tuple(sorted((view_pod(pod) for pod in pods), key=lambda pod: pod.place))
    if not is_there(jobset):
        return JobView(exists=False, pods=views)
    conditions = _true_conditions(jobset)
    terminal = next((kind for kind in ("Completed", "Failed") if kind in conditions), None)
    message = str(conditions[terminal].get("message", "")) if terminal else _waiting(workloads)
    evicted = next((found["Evicted"] for found in map(_true_conditions, workloads or ()) if "Evicted" in found), None)
    return JobView(
        exists=True,
        terminal="Completed" if terminal == "Completed" else "Failed" if terminal else None,
        message=message,
        created=jobset["metadata"].get("creationTimestamp"),
        evicted=JobCause(type=f"Evicted ({evicted['reason']})", message=str(evicted["message"])) if evicted else None,
        pods=views,
    )


def is_there(jobset: Object | None) -> TypeGuard[Object]:
    """Whether a JobSet exists and is not being deleted."""
    return jobset is not None and "deletionTimestamp" not in jobset["metadata"]


def view_pod(pod: Object) -> PodView:
    """The pod that this object of the API describes."""
    meta, status = pod["metadata"], pod.get("status", {})
    labels = meta.get("labels", {})
    spec = pod.get("spec", {})
    container = spec.get("containers", [{}])[0].get("name", "")
    states = {item["name"]: item.get("state", {}) for item in status.get("containerStatuses", [])}
    state = states.get(container, {})
    ended, running = state.get("terminated") or {}, state.get("running") or {}
    return PodView(
        name=meta["name"],
        place=(int(labels.get(JOB_INDEX, 0)), int(labels.get(POD_INDEX, 0))),
        container=container,
        node=spec.get("nodeName"),
        running=bool(running),
        exit_code=ended.get("exitCode"),
        started=running.get("startedAt") or ended.get("startedAt"),
        finished=ended.get("finishedAt"),
        cause=_pod_cause(status, state),
    )


def _pod_cause(status: Object, state: Object) -> JobCause | None:
    disrupted = _true_conditions({"status": status}).get("DisruptionTarget")
    reason, message = status.get("reason"), str(status.get("message", ""))
    if reason in TAKEN_AWAY:
        return JobCause(type=reason, message=message or "the pod's machine was taken away")
    if disrupted is not None and disrupted.get("reason") in TAKEN_AWAY:
        return JobCause(type=disrupted["reason"], message=str(disrupted.get("message", "")))
    ended, waiting = state.get("terminated") or {}, state.get("waiting") or {}
    if ended.get("reason") == "OOMKilled":
        return JobCause(type="OOMKilled", message="a pod used more memory than its machine or its limit has")
    for part in (waiting, ended):
        if part.get("reason") in CANNOT_START:
            return JobCause(type=part["reason"], message=str(part.get("message", "")))
    return None


def _true_conditions(item: Object) -> dict[str, Any]:
    conditions = item.get("status", {}).get("conditions") or []
    return {condition["type"]: condition for condition in conditions if condition.get("status") == "True"}


def _waiting(workloads: Sequence[Object] | None) -> str:
    """Why Kueue has not admitted a job yet."""
    if workloads is None:
        return "not known, for this account may not list workloads.kueue.x-k8s.io (docs/launching.md)"
    for workload in workloads:
        for condition in workload.get("status", {}).get("conditions") or []:
            if condition["type"] == "QuotaReserved" and condition.get("status") == "False":
                return str(condition.get("message", ""))
    return ""
