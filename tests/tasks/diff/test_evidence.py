"""A page accumulates measurements: the most precise one counts, in any order."""

from datetime import UTC, datetime, timedelta
from itertools import permutations
from pathlib import Path

import pytest

from tasks.diff.judge.evidence import Kept, keep, keep_one_program, keep_turns, read_kept
from tasks.records.function import FunctionComparison
from tasks.records.measurement import Measurement
from tasks.records.program_times import ProgramTimes, TimeRatio
from tasks.store.atomic import StoreError
from tasks.store.directories import ComparisonDirectory
from tasks.store.store import Store

SHORT = ProgramTimes(
    wall=TimeRatio(effect=0.077, low=-0.1, high=0.3), step_s=(0.1, 0.1), draws=3, rounds=27, limit_s=60.0
)
LONG = ProgramTimes(
    wall=TimeRatio(effect=0.006, low=-0.004, high=0.016), step_s=(0.1, 0.1), draws=30, rounds=323, limit_s=300.0
)
FAILED = ProgramTimes(problem="nnx: its step failed after 6 rounds")
PROVED = FunctionComparison(answer="same", sentence="one function", results=9)
ENDED = FunctionComparison(answer="another", sentence="another function", is_until_decided=True)
NOT_EVALUATED = FunctionComparison(answer="not evaluated", sentence="not evaluated: 9 GiB are free")


@pytest.fixture
def directory(tmp_path: Path) -> ComparisonDirectory:
    return Store(tmp_path).comparison("main-vs-branch", "01_base", "0123456789")


@pytest.mark.parametrize(
    "order", list(permutations([{"time": SHORT, "function": PROVED}, {"time": LONG}, {"time": FAILED}]))
)
def test_a_weaker_measurement_never_replaces_a_stronger_one(
    order: tuple[dict[str, ProgramTimes | FunctionComparison], ...], directory: ComparisonDirectory
) -> None:
    for found in order:
        keep(directory, **found)
    keep(directory, function=NOT_EVALUATED)
    kept = read_kept(directory)
    assert kept.turns == LONG
    assert kept.function == PROVED
    assert kept.asked == ("function", "time")
    assert len(kept.measurements) == 5


def test_a_measurement_that_is_read_again_is_kept_once(directory: ComparisonDirectory) -> None:
    keep(directory, time=SHORT)
    keep(directory, time=LONG)
    keep(directory, time=read_kept(directory).turns)
    assert [one.time for one in read_kept(directory).measurements if one.time is not None].count(LONG) == 1


def test_other_words_for_a_result_are_no_new_measurement(directory: ComparisonDirectory) -> None:
    keep(directory, function=PROVED)
    keep(directory, function=PROVED.replace(sentence="the same function"))
    keep(directory, function=PROVED.replace(gap=2e-15))
    keep(directory, function=NOT_EVALUATED)
    keep(directory, function=NOT_EVALUATED.replace(sentence="not evaluated: NaN"))
    assert len(read_kept(directory).measurements) == 4


@pytest.mark.parametrize(("limit_s", "is_kept"), [(60.0, True), (300.0, True), (301.0, False)])
def test_turns_are_measured_again_only_for_longer(limit_s: float, is_kept: bool) -> None:
    kept = Kept(measurements=(Measurement(kind="time", made="", time=LONG),))
    assert (keep_turns(kept, limit_s) is not None) == is_kept


def test_turns_that_failed_are_measured_again() -> None:
    assert keep_turns(Kept(measurements=(Measurement(kind="time", made="", time=FAILED),)), 1.0) is None


def test_intervals_that_exclude_each_other_are_told() -> None:
    slower = SHORT.replace(wall=TimeRatio(effect=0.1, low=0.02, high=0.18))
    kept = Kept(measurements=tuple(Measurement(kind="time", made="", time=one) for one in (slower, LONG)))
    assert kept.turns is not None
    assert kept.turns.wall == LONG.wall
    assert "27 rounds" in kept.turns.contradicted
    agree = Kept(measurements=tuple(Measurement(kind="time", made="", time=one) for one in (SHORT, LONG)))
    assert agree.turns == LONG


def test_one_program_answers_what_was_asked(directory: ComparisonDirectory) -> None:
    keep_one_program(directory, ["time"])
    kept = read_kept(directory)
    assert (kept.asked, kept.turns, kept.function) == (("time",), None, None)
    keep_one_program(directory, ["function"])
    assert read_kept(directory).asked == ("function", "time")


def test_equally_precise_measurements_count_by_the_later_one() -> None:
    begin = datetime(2026, 11, 1, tzinfo=UTC)
    found = [
        Measurement(kind="function", made=(begin + timedelta(hours=n)).isoformat(), function=one)
        for n, one in enumerate((PROVED, PROVED.replace(results=12), NOT_EVALUATED))
    ]
    for order in permutations(found):
        function = Kept(measurements=order).function
        assert function is not None
        assert function.results == 12


def test_a_damaged_file_is_an_error_with_its_name(directory: ComparisonDirectory) -> None:
    keep(directory, time=SHORT)
    (file,) = directory.evidence.iterdir()
    file.write_text("{")
    with pytest.raises(StoreError, match=file.name):
        read_kept(directory)


def test_an_evaluation_that_went_on_counts_more_than_one_that_ended_at_its_first_difference(
    directory: ComparisonDirectory,
) -> None:
    whole = FunctionComparison(answer="another", sentence="another function", gap=0.2)
    for order in ((whole, ENDED), (ENDED, whole)):
        for one in order:
            keep(directory, function=one)
        assert read_kept(directory).function == whole
    keep(directory, function=PROVED)  # never hides that a function differs
    assert read_kept(directory).function == whole
