"""The table of planted changes fits the trainer's source."""

from pathlib import Path

import pytest

from benchmarks.planted_changes import PLANTED, ROOT, PlantedChange, edit


@pytest.mark.parametrize("change", PLANTED, ids=lambda change: change.name)
def test_a_change_compiles_and_its_line_exists(change: PlantedChange) -> None:
    changed = edit(change)
    compile(changed, change.file, "exec")
    sources = [changed, *(file.read_text(encoding="utf-8") for file in Path(ROOT, "model").rglob("*.py"))]
    assert any(change.line in source for source in sources)
    assert (ROOT / "configs" / "cases" / f"{change.case}.yml").is_file()


def test_names_are_unique() -> None:
    assert len({change.name for change in PLANTED}) == len(PLANTED)
