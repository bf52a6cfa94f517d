"""The table of planted changes fits the trainer's source."""

from pathlib import Path

import pytest

from benchmarks.planted_changes import PLANTED, ROOT, PlantedChange, edit, source_of
from benchmarks.reported_changes import REPORTED


@pytest.mark.parametrize("change", [*PLANTED, *REPORTED], ids=lambda change: change.name)
def test_a_change_compiles_and_its_line_exists(change: PlantedChange) -> None:
    changed = edit(change)
    compile(changed, change.file, "exec")
    folder = source_of(change) if change.script else Path(ROOT, "model")
    sources = [changed, *(file.read_text(encoding="utf-8") for file in folder.rglob("*.py"))]
    assert any(change.line in source for source in sources)
    assert change.script or (ROOT / "configs" / "cases" / f"{change.case}.yml").is_file()


def test_names_are_unique() -> None:
    changes = [*PLANTED, *REPORTED]
    assert len({change.name for change in changes}) == len(changes)


def test_the_reported_kinds_are_as_many_as_their_figure_needs() -> None:
    assert len(REPORTED) == 32
    assert {change.arm for change in REPORTED if not change.script} == {"linen", "nnx"}
