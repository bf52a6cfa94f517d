"""The table of plants fits the sources, and the words of answers are read as the command line prints them."""

import shutil
from pathlib import Path

import pytest

from benchmarks.claims import Answer
from benchmarks.plants import loops
from benchmarks.plants.first_reports import FIRST_REPORTS
from benchmarks.plants.innocent import INNOCENT
from benchmarks.plants.ours import OURS
from benchmarks.plants.plant import EQUAL, Edit, Plant
from benchmarks.plants.reports import REPORTS
from benchmarks.plants.stranger import STRANGER, TRAINER

ROOT = Path(__file__).parents[2]
PLANTS = [*OURS, *STRANGER, *loops.LOOPS, *REPORTS, *FIRST_REPORTS, *INNOCENT]
SOURCES = {"ours": ROOT, "loops": loops.TRAINER}


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: f"{plant.name}, {plant.command}")
def test_a_plant_fits_the_source_and_compiles(plant: Plant, tmp_path: Path) -> None:
    source = SOURCES.get(plant.trainer, TRAINER)
    for file in {*(edit.file for edit in plant.edits), plant.file} - {""}:
        place = tmp_path / file
        place.parent.mkdir(parents=True, exist_ok=True)
        if (source / file).exists():
            shutil.copyfile(source / file, place)
    for edit in plant.edits:
        edit.apply(tmp_path)
    for path in tmp_path.rglob("*.py"):
        compile(path.read_text(encoding="utf-8"), str(path), "exec")
    assert not plant.line or (tmp_path / plant.file).read_text(encoding="utf-8").count(plant.line) == 1


def test_the_table_has_the_numbers_that_the_figures_need() -> None:
    assert len({(plant.name, plant.command) for plant in PLANTS}) == len(PLANTS)
    innocent = [plant for plant in PLANTS if plant.admits == EQUAL]
    assert len(innocent) >= 40
    assert len(PLANTS) - len(innocent) >= 60
    assert sum(plant.searched for plant in PLANTS) == 10
    assert len(REPORTS) == 20
    assert len({plant.name for plant in FIRST_REPORTS}) == 16
    assert len({plant.name for plant in FIRST_REPORTS if plant.line}) == 13


def test_an_edit_whose_old_text_is_missing_fails(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a = 1\na = 1\n")
    for old in ("b = 1", "a = 1"):  # never, twice
        with pytest.raises(ValueError, match=r"a\.py has"):
            Edit("a.py", old, "a = 2").apply(tmp_path)


@pytest.mark.parametrize(
    ("headline", "sentence", "status", "word"),
    [
        ("= SAME", "No difference. Sure: both values stand in the logs.", 0, "same"),
        ("= SAME FUNCTION", "One function in 31 states. Sure: in float64.", 0, "narrow"),
        ("= SAME FUNCTION", "One function; the norm was never above 5000. Likely.", 0, "likely"),
        ("+ IMPROVED", "The loss ends lower. Sure.", 0, "improved"),
        ("≠ CHANGED", "Another function. Sure.", 1, "different"),
        ("? UNKNOWN", "The change did not run.", 3, "unknown"),
    ],
)
def test_a_word_is_read_from_headline_and_exit_status(headline: str, sentence: str, status: int, word: str) -> None:
    text = f"{headline}   01_base · main 4cbaa90 → main + 1 changed file · cpu   64 s\n  {sentence}\n\n  3 more\n"
    assert Answer(status, text, 1.0).word == word
