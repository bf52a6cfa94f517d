"""Finds the obstacles to runs on a cluster, each with its remedy: missing tools and rights, an unusable API server."""

import importlib.util
import shutil
from collections.abc import Iterator, Sequence

from tasks.launch.backend import WITHOUT, LaunchError
from tasks.launch.xpk.settings import Xpk

XPK = "xpk==1.16.0"  # the requirement in the install command


def find_obstacles(settings: Xpk) -> Iterator[str]:
    """Yield the obstacles to a run on the cluster, each with its remedy; connects to the cluster."""
    yield from missing_tools(settings.argv)
    if importlib.util.find_spec("kubernetes") is None:
        yield "kubernetes is not installed: uv sync --extra k8s"
        return
    from tasks.launch.xpk.kube import choose_context, connect  # imported here because the package is optional
    from tasks.launch.xpk.rights import NEEDED

    try:
        api = connect(choose_context(settings), settings.namespace)
        denied = [right for right in NEEDED if not api.allows(right)]
        if not denied:
            api.jobsets()
    except LaunchError as error:
        yield str(error)
        return
    for right in denied:
        place = "in the cluster" if right.cluster_wide else f"in the namespace {settings.namespace}"
        without = WITHOUT + right.without if right.without else ""
        yield f"this account may not {right} {place}{without}: docs/launching.md has the role"


def missing_tools(argv: Sequence[str]) -> Iterator[str]:
    """Yield the tools that a launch needs and PATH lacks, each with its remedy."""
    if shutil.which(argv[0]) is None:
        yield f"{argv[0]} is not installed: `uv tool install {XPK}`, or name it as `argv` of the target"
    if shutil.which("kubectl") is None:
        yield "kubectl is not installed: `gcloud components install kubectl`"
    if shutil.which("gcloud") is None:
        yield "gcloud is not installed: https://cloud.google.com/sdk/docs/install"
