"""Turns a target into the obstacles to runs on it, each with what to type."""

import importlib.util
import shutil
from collections.abc import Iterator, Mapping, Sequence

from configs.comparison import Target
from configs.errors import ConfigError
from configs.launch import Xpk
from tasks.launch.errors import LaunchError

XPK = "xpk==1.16.0"
WITHOUT = "; without it "  # runs go on


def find_obstacles(target: Target, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield what a run on the target would fail for, with what to type; connects to the target's cluster."""
    try:
        settings = target.launch_settings(environ)
    except ConfigError as error:
        yield from error.problems
        return
    if not isinstance(settings, Xpk):
        return
    yield from missing_tools(settings.argv)
    if importlib.util.find_spec("kubernetes") is None:
        yield "kubernetes is not installed: uv sync --extra k8s"
        return
    from tasks.launch.kube import choose_context, connect  # only here: the package may be missing
    from tasks.launch.rights import NEEDED

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
    """Yield the tools of a launch that are not on the path, each with what to type."""
    if shutil.which(argv[0]) is None:
        yield f"{argv[0]} is not installed: `uv tool install {XPK}`, or name it as `argv` of the target"
    if shutil.which("kubectl") is None:
        yield "kubectl is not installed: `gcloud components install kubectl`"
    if shutil.which("gcloud") is None:
        yield "gcloud is not installed: https://cloud.google.com/sdk/docs/install"
