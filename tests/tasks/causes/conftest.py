"""Plans of a small trainer, whose source a test may edit."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.records import RunPlan

TRAINER = Path(__file__).parents[2] / "standins" / "observed" / "trainer.py"
type Planned = Callable[..., RunPlan]


@pytest.fixture
def plan_of(make_plan: Callable[..., RunPlan], tmp_path: Path) -> Planned:
    """A plan that trains an edited copy of the small trainer, or another program's text."""

    def plan(arm: str, *edits: tuple[str, str], text: str = "", words: tuple[str, ...] = ()) -> RunPlan:
        source = text or TRAINER.read_text()
        for old, new in edits:
            assert old in source
            source = source.replace(old, new)
        file = tmp_path / "sources" / arm / "trainer.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source)
        directory = tmp_path / "out" / "runs" / arm
        directory.mkdir(parents=True, exist_ok=True)
        return make_plan(
            "", arm=arm, trainer="command", backend="local", run_name=arm, directory=str(directory),
            argv=(sys.executable, str(file), *words), environment={"JAX_PLATFORMS": "cpu"}, time_limit_s=300,
            passed_on=("PATH", "HOME"),
        )  # fmt: skip

    return plan
