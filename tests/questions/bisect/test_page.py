"""The page of a bisection: the places of its points, and text of several lines."""

from pathlib import Path

import pytest

from questions.bisect.page import HEIGHT, STRIP, draw_points, publish_bisection
from tasks.records.bisection import BisectedPoint, Bisection, Mark
from tasks.records.plan import Commit
from tasks.store.store import open_store

MARKS: tuple[Mark, ...] = ("good", "", "good", "bad", "skipped", "bad")


def make_record(levels: tuple[float | None, ...]) -> Bisection:
    """Six commits; the fourth is the culprit, the second does not change the trainer's source."""
    points = []
    for number, (mark, level) in enumerate(zip(MARKS, levels, strict=True)):
        commit = Commit(sha=f"{number:040x}", time="2026-01-01T00:00:00+00:00", author="A", subject=f"commit {number}")
        spread = {} if level is None else {"low": level - 0.01, "high": level + 0.01}
        points.append(
            BisectedPoint(
                commit=commit, mark=mark, runs=int(bool(mark)), level=level, chance=float(number == 3), **spread,
                ruled_out="" if mark else "no source of the trainer changed",
            )
        )  # fmt: skip
    return Bisection(
        id="x", comparison="main-vs-branch", case="01_base", target="cpu", created="2026-01-01T00:00:00+00:00",
        good="v1", bad="main", metric="step_time_s", title="Step time, steady", outcome="found", headline="commit 3",
        points=tuple(points), culprit=3, message="commit 3\n\nIts <body>.", diffstat=" a.py | 2 ++\n 1 file changed",
    )  # fmt: skip


def test_levels_are_drawn_and_commits_without_one_are_below() -> None:
    record = make_record((None, None, 0.0, 0.08, None, 0.08))
    drawn, rules = draw_points(record)
    assert [label for _, label in rules] == ["good", "+8.0 %"]
    good, bad = (y for y, _ in rules)
    assert [one.y for one in drawn] == [good, STRIP, good, bad, STRIP, bad]
    assert 0 <= bad < good <= HEIGHT
    culprit = drawn[3]
    assert culprit.low is not None
    assert culprit.high is not None
    assert culprit.high < culprit.y < culprit.low
    assert [one.kind for one in drawn] == ["good", "ruled", "good", "culprit", "skipped", "bad"]
    assert [one.chance is not None for one in drawn] == [False, False, False, True, False, False]


def test_without_levels_each_commit_is_drawn_at_the_end_that_it_resembles() -> None:
    drawn, rules = draw_points(make_record((None,) * 6))
    assert [label for _, label in rules] == ["like good", "like bad"]
    good, bad = (y for y, _ in rules)
    assert [one.y for one in drawn] == [good, STRIP, good, bad, STRIP, bad]


@pytest.mark.parametrize("levels", [(None,) * 6, (None, None, 0.0, 0.08, None, 0.08)])
def test_the_message_and_the_diffstat_keep_their_lines(levels: tuple[float | None, ...], tmp_path: Path) -> None:
    page = publish_bisection(make_record(levels), open_store(str(tmp_path))).read_text()
    assert "<pre>commit 3\n\nIts &lt;body&gt;.</pre>" in page
    assert "<pre> a.py | 2 ++\n 1 file changed</pre>" in page
