"""A run's folder, and readings of its log."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tasks.records.log_reading import RunReading
from tasks.store.directories import RunDirectory
from tasks.store.store import Store

LOG = "XPK Start: x\ncompleted step: 0\ncompleted step: 1\nXPK End: x\nEXIT_CODE={code}\n"


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    return Store(tmp_path).run("a-run").create()


@pytest.fixture
def reading_of(directory: RunDirectory) -> Callable[..., RunReading]:
    """reading_of(code, text): a reading of the run's log without an exception."""

    def read(code: int | None, text: str = LOG, **more: Any) -> RunReading:
        directory.log.write_text(text.format(code=code))
        return RunReading(name="a-run", format="maxtext", exit_code=code, **more)

    return read
