"""Plans whose command is a line of Python, and no process left behind by any test."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tasks.launch import local
from tasks.records import LocalHandle, RunPlan
from tasks.store import RunDirectory, Store


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    return Store(tmp_path / "out").run("a-run").create()


@pytest.fixture
def make_plan(directory: RunDirectory) -> Callable[..., RunPlan]:
    """make_plan(code, *words): a plan that runs a line of Python."""

    def make(code: str, *words: str, **changes: Any) -> RunPlan:
        fields: dict[str, Any] = {
            "comparison": "c", "case": "01_base", "arm": "linen", "repeat": 0, "trainer": "maxview", "target": "cpu",
            "backend": "local", "config": {"steps": 3}, "origins": {"steps": "configs/base.yml:8"}, "commit": None,
            "dirty": False, "versions": {}, "environment": {"JAX_PLATFORMS": "cpu"},
            "argv": (sys.executable, "-c", code, *words), "time_limit_s": 60, "run_name": directory.run_name,
            "directory": str(directory.path), "identity": "0123456789abcdef",
        }  # fmt: skip
        return RunPlan(**(fields | changes))

    return make


@pytest.fixture
def start(make_plan: Callable[..., RunPlan], directory: RunDirectory) -> Iterator[Callable[..., LocalHandle]]:
    """start(code, *words, grace_s=…, **plan): a launched run, ended when the test ends."""
    handles = []

    def launch(code: str, *words: str, grace_s: float = 1.0, **changes: Any) -> LocalHandle:
        handle = local.launch(make_plan(code, *words, **changes), directory.log, grace_s=grace_s)
        handles.append(handle)
        return handle

    yield launch
    for handle in handles:
        local.stop(handle, grace_s=2.0)
        assert not any(local.members(handle))


@pytest.fixture(autouse=True)
def _no_descriptor_stays_open() -> Iterator[None]:
    before = len(os.listdir("/proc/self/fd"))
    yield
    assert len(os.listdir("/proc/self/fd")) <= before
