"""Finds the obstacles to runs on a cluster, each with its remedy: missing rights, an unusable API server."""

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from configs.backends.cluster import ClusterSettings
from tasks.launch.backend import WITHOUT
from tasks.launch.cluster.rights import Right

if TYPE_CHECKING:
    from tasks.launch.cluster.kube import KubeApi


def find_cluster_obstacles(
    settings: ClusterSettings,
    needed: Sequence[Right],
    find_more: Callable[["KubeApi"], Iterator[str]] = lambda _: iter(()),
) -> Iterator[str]:
    """Yield the obstacles to a run on the cluster, each with its remedy; connects to the cluster. Raises LaunchError.

    needed: the rights to check. find_more: the backend's own checks, which need these rights.
    """
    if importlib.util.find_spec("kubernetes") is None:
        yield "kubernetes is not installed: uv sync --extra k8s"
        return
    from tasks.launch.cluster.kube import choose_context, connect  # imported here because the package is optional

    api = connect(choose_context(settings), settings.namespace)
    denied = [right for right in needed if not api.allows(right)]
    if all(right.without for right in denied):
        api.jobsets()
        yield from find_more(api)
    for right in denied:
        place = "in the cluster" if right.cluster_wide else f"in the namespace {settings.namespace}"
        without = WITHOUT + right.without if right.without else ""
        yield f"this account may not {right} {place}{without}: docs/launching.md has the role"
