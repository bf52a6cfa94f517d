"""Finds the obstacles to JobSets, each with its remedy: missing rights, and a queue that cannot admit the job."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from configs.backends.jobset import JobSet
from tasks.launch.backend import WITHOUT, LaunchError
from tasks.launch.cluster import rights
from tasks.launch.cluster.check import find_cluster_obstacles

if TYPE_CHECKING:
    from tasks.launch.cluster.kube import KubeApi

VERSION = "v1alpha2"  # of JobSet
QUEUE_RIGHTS = (rights.LIST_QUEUES, rights.GET_CLUSTER_QUEUES, rights.GET_FLAVORS)
PRIORITY_RIGHTS = (rights.GET_PRIORITIES,)


def find_obstacles(settings: JobSet) -> Iterator[str]:
    """Yield the obstacles to a run on the cluster, each with its remedy; connects to the cluster."""
    if settings.project and shutil.which("gcloud") is None:
        yield f"gcloud is not installed{WITHOUT}lines that a pod's log has lost are not fetched from Cloud Logging"
    needed = rights.NEEDED + QUEUE_RIGHTS * bool(settings.queue) + PRIORITY_RIGHTS * bool(settings.priority)
    yield from find_cluster_obstacles(settings, needed, lambda api: find_unfit(api, settings))


def find_unfit(api: "KubeApi", settings: JobSet) -> Iterator[str]:
    """Yield why the cluster cannot run the target's jobs. Leaves out what this account may not read."""
    from tasks.launch.cluster.kube import NotServed, Refused

    with suppress(Refused):
        served = api.versions(rights.JOBSET)
        if VERSION not in served:
            yield f"JobSet {VERSION} is not installed (served: {', '.join(served) or 'none'}): docs/launching.md"
    if settings.priority:
        with suppress(Refused):
            if api.priority_class(settings.priority) is None:
                known = "`kubectl get priorityclasses` lists them"
                yield f"the priority {settings.priority} does not exist: {known}; set `priority` of the target"
    if settings.queue:
        with suppress(Refused):
            try:
                yield from _find_unfit_queue(api, settings, settings.queue)
            except NotServed:
                yield "Kueue is not installed: docs/launching.md, or set `queue: null` in the target"


def check_fit(api: "KubeApi", settings: JobSet) -> None:
    """Raise LaunchError if the cluster cannot run the target's jobs."""
    for problem in find_unfit(api, settings):
        raise LaunchError(problem)


def _find_unfit_queue(api: "KubeApi", settings: JobSet, name: str) -> Iterator[str]:
    """Yield why the queue can never admit a job. Raises Refused, NotServed."""
    queues = api.local_queues()
    if name not in queues:
        there = f"there are: {', '.join(sorted(queues))}" if queues else "there are none"
        yield f"the namespace {settings.namespace} has no queue {name}; {there}; set `queue` of the target"
        return
    owner = str(queues[name]["spec"]["clusterQueue"])
    queue = api.cluster_queue(owner)
    if queue is None:
        yield f"the queue {name} belongs to the ClusterQueue {owner}, which does not exist: ask its administrator"
        return
    spec = queue["spec"]
    if spec.get("stopPolicy", "None") != "None":
        yield f"the ClusterQueue {owner} of the queue {name} is stopped ({spec['stopPolicy']}): ask its administrator"
    for resource, per_host in settings.limits.items():
        count = per_host * settings.slice_hosts * settings.num_slices
        group = next((g for g in spec.get("resourceGroups", []) if resource in g["coveredResources"]), None)
        if group is None:
            yield f"the ClusterQueue {owner} has no quota for {resource}: set another `queue` of the target"
            return
        wanted = settings.selector
        flavors = {str(item["name"]): item for item in group["flavors"]}
        fit = [flavor for flavor in flavors if _has_nodes(api.flavor(flavor), wanted)]
        if not fit:
            labels = ", ".join(f"{key}={value}" for key, value in wanted.items())
            others = f"it has the flavors {', '.join(flavors)}; set another `queue`"
            yield f"the ClusterQueue {owner} has no nodes with {labels}: {others}"
            return
        shared = "cohort" in spec or "cohortName" in spec
        most = max(_quota(flavors[flavor], resource, shared=shared) for flavor in fit)
        if most < count:
            quota = f"a quota of {most:g} {resource}, and a job needs {count}"
            yield f"the ClusterQueue {owner} has {quota}: set another `queue`, or fewer slices"


def _has_nodes(flavor: Mapping[str, Any] | None, wanted: Mapping[str, str]) -> bool:
    """Return whether nodes of a ResourceFlavor can have the wanted labels."""
    labels = (flavor or {}).get("spec", {}).get("nodeLabels", {})
    return flavor is not None and all(labels.get(key, value) == value for key, value in wanted.items())


def _quota(flavor: Mapping[str, Any], resource: str, *, shared: bool) -> float:
    """Return the largest amount of a resource that a job can get. shared: the queue may borrow from its cohort."""
    from kubernetes.utils import parse_quantity

    quota = next(item for item in flavor["resources"] if item["name"] == resource)
    borrowed = quota.get("borrowingLimit", "inf" if shared else "0")
    parts = (parse_quantity(text) for text in (quota["nominalQuota"], borrowed))  # type: ignore[no-untyped-call]
    return float(sum(parts))
