"""The launcher of the backend `jobset`, which imports the backend's libraries only when they are needed."""

from typing import Any

from tasks.launch.backend import Backend, Launcher, LaunchError
from tasks.launch.cluster.job_view import CAUSE_KINDS
from tasks.launch.jobset.check import find_obstacles
from tasks.launch.jobset.manifest import write_manifest


def load() -> Backend[Any]:
    """Return the backend. Raises LaunchError if its libraries are not installed."""
    try:
        # their libraries take half a second to load
        from tasks.launch.cluster.on_cluster import OnCluster
        from tasks.launch.jobset.create import create_jobset
    except ModuleNotFoundError as error:
        raise LaunchError(f"{error.name} is not installed; runs on clusters need it: uv sync --extra k8s") from error
    return OnCluster(create_jobset)


LAUNCHER = Launcher(load=load, find_obstacles=find_obstacles, death_kinds=CAUSE_KINDS, manifest=write_manifest)
