"""Derives a job's state, and the cause of its end, from the API objects of its JobSet, pods and Kueue workloads."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeGuard

from configs.frozen import Frozen
from tasks.records.plan import JobCause
from tasks.records.run_end import DeathKind

type Object = Mapping[str, Any]

# `reason` of a pod, or of its condition DisruptionTarget, after a preemption or another loss of its machine.
# https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions
TAKEN_AWAY = {
    "Preempted", "Preempting", "PreemptionByScheduler", "PreemptionByKubeScheduler", "Evicted",
    "EvictionByEvictionAPI", "DeletionByTaintManager", "DeletionByPodGC", "TerminationByKubelet", "NodeShutdown",
    "Terminated", "Shutdown", "NodeLost", "NodeAffinity", "NodeGone",
}  # fmt: skip
# `reason` of a container that will never start.
CANNOT_START = {
    "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError",
    "CreateContainerError", "RunContainerError", "CreateContainer", "StartError", "ContainerCannotRun",
}  # fmt: skip
# Type of cause → kind of death. Maxview itself detects NodeLost, NodeGone and the last four types in this table;
# Kubernetes reports the others.
CAUSE_KINDS: dict[str, DeathKind] = {
    **dict.fromkeys(TAKEN_AWAY, "preempted"),
    **dict.fromkeys(CANNOT_START, "configuration"),
    "OOMKilled": "host_oom",
    "StartLimit": "timeout",
    "TimeLimit": "timeout",
    "PodGone": "preempted",
    "Deleted": "killed",
}
JOB_INDEX = "jobset.sigs.k8s.io/job-index"
POD_INDEX = "batch.kubernetes.io/job-completion-index"


class PodView(Frozen):
    """A pod: its slice, its host, and the state of its trainer. Times are ISO 8601."""

    name: str
    place: tuple[int, int]  # (slice, host), both from 0
    container: str  # name of the trainer's container
    node: str | None  # None: not scheduled yet
    running: bool  # whether the trainer's container runs
    exit_code: int | None  # of the trainer; None: it has not ended
    started: str | None  # None: the trainer has not started
    finished: str | None  # None: the trainer has not ended
    cause: JobCause | None  # why the platform ended the pod or cannot start it; None: it did neither


class JobView(Frozen):
    """A job as the cluster shows it at one moment."""

    exists: bool
    terminal: Literal["Completed", "Failed"] | None = None  # None: the JobSet has not ended
    message: str = ""  # why the JobSet has ended, or why it waits for machines; "": unknown, or it does not wait
    created: str | None = None  # ISO 8601
    evicted: JobCause | None = None  # why Kueue evicted the job; Kueue restarts it by itself. None: not evicted
    pods: tuple[PodView, ...] = ()  # sorted by slice and host

    @property
    def first(self) -> PodView | None:
        """The pod of process 0, which writes the metrics and logs the checkpoints; None if it does not exist."""
        return self.pods[0] if self.pods and self.pods[0].place == (0, 0) else None

    @property
    def failed(self) -> PodView | None:
        """The pod that failed first, a preempted pod if there is one; None if no pod failed."""
        bad = [pod for pod in self.pods if pod.exit_code or (pod.cause and pod.cause.type in TAKEN_AWAY)]
        taken = [pod for pod in bad if pod.cause and pod.cause.type in TAKEN_AWAY]
        return min(taken or bad, key=lambda pod: (pod.finished or "9999", pod.place)) if bad else None

    @property
    def exit_code(self) -> int | None:
        """The trainer's exit code in the pod that failed first, if it has one; 0 once the job is done; else None."""
        if self.failed is not None:
            return self.failed.exit_code
        return 0 if self.terminal == "Completed" or self._done else None

    @property
    def cause(self) -> JobCause | None:
        """Why the platform ended the job or cannot start it; None if it did neither, even if the trainer failed."""
        blocked = [pod.cause for pod in self.pods if pod.cause and pod.cause.type not in TAKEN_AWAY and not pod.running]
        if self.failed is not None:
            return self.failed.cause
        return blocked[0] if blocked else None

    @property
    def started(self) -> str | None:
        """The start of the trainer process that started first, ISO 8601; None if no trainer has started."""
        return min((pod.started for pod in self.pods if pod.started), default=None)

    @property
    def over(self) -> bool:
        """Whether the job has ended and will not continue."""
        return not self.exists or self.terminal is not None or self.failed is not None or self._done

    @property
    def hosts(self) -> tuple[str, ...]:
        """The nodes of the job's pods, sorted."""
        return tuple(sorted({pod.node for pod in self.pods if pod.node}))

    @property
    def _done(self) -> bool:
        # if the first pod is missing, the job is being deleted
        return self.first is not None and all(pod.exit_code == 0 for pod in self.pods)


def view_job(jobset: Object | None, pods: Sequence[Object], workloads: Sequence[Object] | None) -> JobView:
    """Return the state of a job from its API objects. workloads: None if this account may not list them.

    A JobSet that is being deleted is treated as missing: it exists only until its pods have ended.
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
    """Return whether a JobSet exists and is not being deleted."""
    return jobset is not None and "deletionTimestamp" not in jobset["metadata"]


def view_pod(pod: Object) -> PodView:
    """Return the state of a pod from its API object."""
    meta, status = pod["metadata"], pod.get("status", {})
    labels = meta.get("labels", {})
    spec = pod.get("spec", {})
    names = [str(container["name"]) for container in spec.get("containers", [])]
    container = next((name for name in names if not name.startswith("gke-")), "")  # GKE adds containers of its own
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
        return JobCause(type=reason, message=message or "the pod has lost its machine")
    if disrupted is not None and disrupted.get("reason") in TAKEN_AWAY:
        return JobCause(type=disrupted["reason"], message=str(disrupted.get("message", "")))
    ended, waiting = state.get("terminated") or {}, state.get("waiting") or {}
    if ended.get("reason") == "OOMKilled":
        return JobCause(type="OOMKilled", message="a pod used more memory than its machine or its limit has")
    for part in (waiting, ended):
        if (kind := part.get("reason")) in CANNOT_START:
            cure = "; set `image` of the target, or let the pods' service account read it" if "Image" in kind else ""
            return JobCause(type=kind, message=f"{part.get('message', '')}{cure}")
    return None


def find_node_loss(name: str, node: Object | None) -> JobCause | None:
    """Return why a node is lost (it is missing or not ready); None if it is not lost. node: its API object."""
    if node is None:
        return JobCause(type="NodeGone", message=f"the node {name} has left the cluster")
    for condition in node.get("status", {}).get("conditions") or []:
        if condition["type"] == "Ready" and condition.get("status") != "True":
            why = condition.get("message") or condition.get("reason") or ""
            return JobCause(type="NodeLost", message=f"the node {name} is not ready: {why}")
    return None


def _true_conditions(item: Object) -> dict[str, Any]:
    conditions = item.get("status", {}).get("conditions") or []
    return {condition["type"]: condition for condition in conditions if condition.get("status") == "True"}


def _waiting(workloads: Sequence[Object] | None) -> str:
    """Return the reason why Kueue has not admitted a job yet, or why it is unknown; "" if there is none."""
    if workloads is None:
        return "unknown, because this account may not list workloads.kueue.x-k8s.io (docs/launching.md)"
    for workload in workloads:
        for condition in workload.get("status", {}).get("conditions") or []:
            if condition["type"] == "QuotaReserved" and condition.get("status") == "False":
                return str(condition.get("message", ""))
    return ""
