"""Runs on this machine; every test must end its processes."""

import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from configs.comparison import Target, load_target
from configs.read import CONFIG_ROOT
from tasks.launch.local import process_group
from tasks.launch.local.handle import LocalHandle
from tasks.launch.processes import members
from tasks.records.plan import RunPlan
from tasks.store.directories import RunDirectory

LAUNCHING = CONFIG_ROOT.parent / "docs" / "launching.md"


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 120.0
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


@pytest.fixture
def xpk_target(tmp_path: Path) -> Target:
    """The target for xpk in docs/launching.md; the repository's own use the backend `jobset`."""
    (block,) = re.findall(r"```yaml\n(backend: xpk\n.*?)```", LAUNCHING.read_text(), re.DOTALL)
    (tmp_path / "targets").mkdir()
    (tmp_path / "targets" / "by-xpk.yml").write_text(block)
    return load_target("by-xpk", root=tmp_path)


@pytest.fixture
def start(make_plan: Callable[..., RunPlan], directory: RunDirectory) -> Iterator[Callable[..., LocalHandle]]:
    """start(code, *words, grace_s=…, **plan): a launched run, ended when the test ends."""
    handles = []

    # processes get half a minute to end, and need it only on a busy machine
    def launch(code: str, *words: str, grace_s: float = 30.0, **changes: Any) -> LocalHandle:
        handle = process_group.launch(make_plan(code, *words, **changes), directory.log, grace_s=grace_s)
        handles.append(handle)
        return handle

    yield launch
    for handle in handles:
        process_group.stop(handle, grace_s=2.0)
        assert not any(members(handle))


@pytest.fixture(autouse=True)
def _no_descriptor_stays_open() -> Iterator[None]:
    before = len(os.listdir("/proc/self/fd"))
    yield
    deadline = time.monotonic() + 60.0  # a log-reading thread closes its connection with a delay
    while len(os.listdir("/proc/self/fd")) > before and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(os.listdir("/proc/self/fd")) <= before
