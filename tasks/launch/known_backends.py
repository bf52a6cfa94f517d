"""Lists the backends: the name in a target → its jobs, and the handle of a run that it has started."""

from importlib import import_module
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, TypeAdapter

from configs.backends import check_backend
from tasks.launch.backend import Backend, Launcher
from tasks.records.plan import RunHandle
from tasks.store.directories import RunDirectory

# name → package with `handle.py` (HANDLE) and `launcher.py` (LAUNCHER); configs/backends has the settings of each
BACKENDS = {name: f"tasks.launch.{name}" for name in ("local", "jobset", "slurm", "xpk")}


def launcher_of(backend: str) -> Launcher:
    """Return the launcher of the backend of this name. Raises ValueError for an unknown name."""
    launcher: Launcher = _find_part(backend, "launcher")
    return launcher


def backend_of(name: str) -> Backend[Any]:
    """Return the backend of this name. Raises LaunchError if its libraries are not installed."""
    return launcher_of(name).load()


def read_handle(directory: RunDirectory) -> RunHandle | None:
    """Return a run's handle; None if there is none. Raises StoreError if the file is damaged."""
    return directory.read_handle(_STORED)


def _find_part(backend: Any, part: Literal["handle", "launcher"]) -> Any:
    return getattr(import_module(f"{BACKENDS[check_backend(backend)]}.{part}"), part.upper())


def _parse_handle(value: Any) -> Any:
    return _find_part(value.get("backend"), "handle").model_validate(value) if isinstance(value, dict) else value


_STORED: TypeAdapter[RunHandle] = TypeAdapter(Annotated[RunHandle, BeforeValidator(_parse_handle)])
