"""Turns a target into what stands in the way of runs on it, each with what to type."""

import importlib.util
from collections.abc import Iterator, Mapping

from configs.comparison import Target
from configs.errors import ConfigError
from configs.launch import Xpk
from tasks.launch.create import missing_tools
from tasks.launch.errors import LaunchError


def find_obstacles(target: Target, environ: Mapping[str, str]) -> Iterator[str]:
    """What a run on the target would fail for, as far as can be seen from here; asks the cluster if there is one."""
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

    try:
        connect(choose_context(settings), settings.namespace).jobsets()
    except LaunchError as error:
        yield str(error)
