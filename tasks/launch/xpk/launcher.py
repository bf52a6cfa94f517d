"""The launcher of the backend `xpk`, which imports the backend's libraries only when they are needed."""

from typing import Any

from tasks.launch.backend import Backend, Launcher, LaunchError
from tasks.launch.xpk.check import find_obstacles
from tasks.launch.xpk.jobset import CAUSE_KINDS


def load() -> Backend[Any]:
    """Return the backend. Raises LaunchError if its libraries are not installed."""
    try:
        from tasks.launch.xpk.cluster import OnCluster  # its libraries take half a second to load
    except ModuleNotFoundError as error:
        raise LaunchError(f"{error.name} is not installed; runs on clusters need it: uv sync --extra k8s") from error
    return OnCluster()


LAUNCHER = Launcher(load=load, find_obstacles=find_obstacles, death_kinds=CAUSE_KINDS)
