"""Finds the obstacles to runs by xpk, each with its remedy: missing tools and rights."""

import shutil
from collections.abc import Iterator, Sequence

from configs.backends.xpk import Xpk
from tasks.launch.cluster.check import find_cluster_obstacles
from tasks.launch.cluster.rights import NEEDED, Right

XPK = "xpk==1.16.0"  # the requirement in the install command
# further rights of xpk: it creates a role for its pods, and an account can grant only rights that it has itself
XPK_NEEDED = (
    *(Right(verb=verb, resource="pods") for verb in ("get", "watch")),
    *(Right(verb=verb, resource="serviceaccounts") for verb in ("get", "create")),
    *(
        Right(verb=verb, resource=name, group="rbac.authorization.k8s.io")
        for name in ("roles", "rolebindings") for verb in ("get", "create")
    ),
    Right(verb="get", resource="configmaps"),
    *(Right(verb=verb, resource="services") for verb in ("get", "list", "watch")),
    *(Right(verb=verb, resource="jobs", group="batch") for verb in ("get", "list", "watch")),
    Right(verb="list", resource="storages", group="xpk.x-k8s.io", cluster_wide=True),
)  # fmt: skip


def find_obstacles(settings: Xpk) -> Iterator[str]:
    """Yield the obstacles to a run on the cluster, each with its remedy; connects to the cluster."""
    yield from missing_tools(settings.argv)
    yield from find_cluster_obstacles(settings, (*NEEDED, *XPK_NEEDED))


def missing_tools(argv: Sequence[str]) -> Iterator[str]:
    """Yield the tools that a launch needs and PATH lacks, each with its remedy."""
    if shutil.which(argv[0]) is None:
        yield f"{argv[0]} is not installed: `uv tool install {XPK}`, or name it as `argv` of the target"
    if shutil.which("kubectl") is None:
        yield "kubectl is not installed: `gcloud components install kubectl`"
    if shutil.which("gcloud") is None:
        yield "gcloud is not installed: https://cloud.google.com/sdk/docs/install"
