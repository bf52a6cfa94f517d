"""Returns, after every run of a bisection, the next runs or the result of the search.

A point is a commit or a package version. The ends are the first point (good) and the last one (bad). The culprit
is the point that changed the metric. A suspect is a point that may be the culprit. The search halves the suspects: it
runs the point in their middle, and repeats it with both ends until the verdict rule finds it like good or not.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from math import ceil, log2

from questions.bisect.bisected_metric import SAME, say_better, say_unsure
from questions.bisect.records import Mark
from questions.bisect.terms import (
    HALVES,
    MAX_RUNS_OF_POINT,
    WORSE,
    Finish,
    Judge,
    Line,
    SearchLimits,
    Train,
)
from tasks.records.compared_case import Decision

MIN_RUNS = 2  # of a point whose time is judged, because other work on the machine may have slowed a single run
# Before a commit is named by its time, it and the one before it have so many runs, all of one slower than all of the
# other: four and four without a change are so in 1 of 70 orders. Two clock states overlap, whatever noise is stated.
PROOF_RUNS = 4
OVERLAP = "equal runs of a commit scatter as much as the two differ (--metric time asks the programs instead)"
NOT_SURE = "the runs that are allowed do not make it sure (--max-runs or --budget allow more)"


def mark_points(line: Line, judge: Judge) -> dict[int, tuple[Mark, str]]:
    """Return point → (mark, reason), by the verdict rule, for the points between the ends with runs or a failure.

    Points for which another point's runs stand are left out (see `Line.alike`).
    """
    return {point: _mark(line, judge, point) for point in range(1, line.last) if line.alike[point] == point
            and (judge.runs(point) or judge.failed(point))}  # fmt: skip


def _mark(line: Line, judge: Judge, point: int) -> tuple[Mark, str]:
    if why := judge.failed(point):
        return "skipped", why
    shares = _shares(line)
    from_good, to_bad = judge.compare(0, point, shares=shares), judge.compare(point, line.last, shares=shares)
    told = f"against good: {from_good.reason}" if from_good.reason else from_good.verdict
    if from_good.verdict in WORSE:
        return ("between" if to_bad.verdict in (*WORSE, "improved") else "bad"), told
    if from_good.verdict in ("same", "improved"):
        return "good", told
    if to_bad.verdict == "same" and not judge.judges_time:
        return "bad", f"against bad: {to_bad.reason or 'same'}"
    return ("good" if to_bad.verdict in WORSE and judge.judges_time else "unknown"), told


def _shares(line: Line) -> int:
    """Return the divisor of the false-alarm probability: the ends take a half, the halvings share the other one."""
    return HALVES * (1 + ceil(log2(max(2, sum(map(bool, line.weights))))))


def judge_ends(line: Line, judge: Judge) -> Decision:
    """Return the verdict on bad against good by the first 1, 2, … runs of each, until one is sure; else unknown.

    If the metric is a time, a verdict other than worse needs MIN_RUNS runs, because one slowed run of good hides a
    difference.
    """
    both = min(judge.runs(0), judge.runs(line.last))
    found = Decision(verdict="unknown", reason="not run yet", runs_wanted=1)
    for runs in range(1, both + 1):
        found = judge.compare(0, line.last, runs=runs, shares=HALVES)
        if found.verdict in WORSE or (found.verdict != "unknown" and (runs >= MIN_RUNS or not judge.judges_time)):
            return found
    return found.replace(verdict="unknown")


class _MarkedLine:
    """A line of points with the marks of `mark_points`.

    last_good: the last point that is good, by its source or its mark. first_bad: the first one after it that is not.
    notes: sentences about `last_good`.
    """

    def __init__(self, line: Line, judge: Judge) -> None:
        self.line, self.judge = line, judge
        self.marks = {point: mark for point, (mark, _) in mark_points(line, judge).items() if self._is_run(point)}
        self.last_good = max(point for point in range(line.last) if line.alike[point] == 0)
        self.notes: tuple[str, ...] = ()
        if any(line.weights[: self.last_good + 1]):
            self.notes = (f"{{{self.last_good}}} has good's source again: what came before it went with it",)
        good = max((point for point, mark in self.marks.items() if mark == "good"), default=0)
        bad = min((point for point in self._bad if point > self.last_good), default=line.last)
        if bad < good:
            self.notes += (f"it comes, goes and comes again: bad at {{{bad}}}, good again at {{{good}}}",)
        # points that train like a good one are good, too
        alike = [point for point in range(line.last) if good and line.alike[point] == good]
        self.last_good = max([self.last_good, *alike])
        self.first_bad = min((point for point in self._bad if point > self.last_good), default=line.last)

    def _is_run(self, point: int) -> bool:
        """Whether the point's runs are enough for its mark."""
        return bool(self.judge.failed(point)) or self.judge.runs(point) >= (MIN_RUNS if self.judge.judges_time else 1)

    @property
    def _bad(self) -> list[int]:
        return [point for point, mark in self.marks.items() if mark in ("bad", "between")]

    @property
    def suspects(self) -> list[int]:
        """The points that may be the culprit."""
        return [point for point in range(self.last_good + 1, self.first_bad + 1) if self.line.weights[point]]

    @property
    def middle(self) -> int | None:
        """The point that splits the weights of the suspects best; None if no run of any of them would tell more."""
        suspects = self.suspects
        held = dict(zip(suspects, accumulate(self.line.weights[point] for point in suspects), strict=True))
        total = held[suspects[-1]]
        left = [
            point
            for point in suspects[:-1]
            if self.line.alike[point] == point
            and not self.judge.failed(point)
            and self.judge.runs(point) < MAX_RUNS_OF_POINT
        ]
        return min(left, key=lambda point: abs(held[point] - total / 2), default=None)


def next_action(line: Line, judge: Judge, limits: SearchLimits, *, spent_s: float = 0.0) -> Train | Finish:
    """Return the next runs, or the result. A killed search can resume, because the finished runs are its only state."""

    def may_train(points: Sequence[int]) -> bool:
        done = sum(judge.runs(point) for point, like in enumerate(line.alike) if point in (like, line.last))
        return limits.allow(done + len(points), spent_s)

    ends_verdict = judge_ends(line, judge)
    if ends_verdict.verdict not in WORSE:
        return _compare_ends(line, judge, limits, ends_verdict, may_train)
    marked = _MarkedLine(line, judge)
    suspects = marked.suspects
    if not suspects:
        why = "no point of the line can have caused it: their source and their programs are equal"
        return Finish(outcome="range", why=why, pair_verdict=ends_verdict, notes=marked.notes)
    if len(suspects) > 1:
        middle = marked.middle
        if middle is None:
            why = f"{sum(mark == 'skipped' for mark in marked.marks.values())} of them could not be judged"
            stuck = any(judge.runs(point) >= MAX_RUNS_OF_POINT for point in suspects[:-1])
            return _name_range(marked, NOT_SURE if stuck else why)
        points = _fewest(judge, (0, middle, line.last)) if judge.runs(middle) else (middle,)
        if not may_train(points):
            return _name_range(marked, NOT_SURE)
        return Train(points=points, why=f"{len(suspects)} points are left")
    return _prove(marked, suspects[0], ends_verdict, may_train)


def _prove(
    marked: _MarkedLine, culprit: int, ends_verdict: Decision, may_train: Callable[[Sequence[int]], bool]
) -> Train | Finish:
    """Return the culprit if the verdict rule finds it worse than the point before it; else more runs, or a range."""
    line, judge = marked.line, marked.judge
    before, after = line.alike[culprit - 1], line.alike[culprit]
    if before == 0:
        before = marked.last_good if line.alike[marked.last_good] == 0 and not judge.runs(0) else 0
    if not judge.judges_time and marked.marks.get(after, "bad") == "bad":
        verdict = ends_verdict  # without noise, the point before it is good, and it is bad
    else:
        verdict = judge.compare(before, after, shares=_shares(line))
    enough = not judge.judges_time or min(judge.runs(before), judge.runs(after)) >= PROOF_RUNS
    if verdict.verdict in WORSE and enough and judge.judges_time and not judge.are_apart(before, after):
        return _name_range(marked, OVERLAP, verdict)
    if verdict.verdict in WORSE and enough:
        return Finish(
            outcome="found", why="", culprit=culprit, before=before or marked.last_good, pair_verdict=verdict,
            notes=(*marked.notes, *_other_changes(line, judge, before, after)),
        )  # fmt: skip
    points = _fewest(judge, (before, after))
    if verdict.verdict in ("same", "improved"):
        return _name_range(marked, "it is no worse than the point before it: several small changes may add up", verdict)
    if max(map(judge.runs, points)) >= MAX_RUNS_OF_POINT or not may_train(points):
        return _name_range(marked, NOT_SURE, ends_verdict)
    return Train(points=points, why="the suspect and the point before it, side by side")


def _fewest(judge: Judge, points: Sequence[int]) -> tuple[int, ...]:
    """Return those of the points that have the fewest runs."""
    least = min(map(judge.runs, points))
    return tuple(point for point in points if judge.runs(point) == least)


def find_suspects(line: Line, judge: Judge) -> list[int]:
    """Return the points that may be the culprit; empty if bad is not surely worse than good."""
    return _MarkedLine(line, judge).suspects if judge_ends(line, judge).verdict in WORSE else []


def _compare_ends(
    line: Line,
    judge: Judge,
    limits: SearchLimits,
    ends_verdict: Decision,
    may_train: Callable[[Sequence[int]], bool],
) -> Train | Finish:
    """Return more runs of one or both ends if these are undecided and the limits allow it; else the result."""
    both = min(judge.runs(0), judge.runs(line.last))
    failed = judge.failed(0) or judge.failed(line.last)
    if failed:
        return Finish(outcome="no difference", why=f"an end cannot be judged: {failed}", pair_verdict=ends_verdict)
    allowed = (
        MAX_RUNS_OF_POINT if limits.are_given else 2 * limits.max_end_runs if judge.judges_time else limits.max_end_runs
    )
    fewer = tuple(point for point in (0, line.last) if judge.runs(point) == both)
    if ends_verdict.verdict == "unknown" and both < allowed and may_train(fewer):
        return Train(points=fewer, why="both ends")
    if ends_verdict.verdict == "same":
        why = SAME
    elif ends_verdict.verdict == "improved":
        why = say_better(ends_verdict.reason)
    else:
        why = say_unsure(both, ends_verdict.reason, ends_verdict.runs_wanted, ends_verdict.cost_text)
    return Finish(outcome="no difference", why=why, pair_verdict=ends_verdict)


def _name_range(marked: _MarkedLine, why: str, pair_verdict: Decision | None = None) -> Finish:
    suspects = tuple(marked.suspects)
    return Finish(outcome="range", why=why, suspects=suspects, pair_verdict=pair_verdict, notes=marked.notes)


def _other_changes(line: Line, judge: Judge, before: int, culprit: int) -> tuple[str, ...]:
    """Return sentences about other sure changes before `before` and after the culprit, from the finished runs."""
    notes = []
    for start, end, where in ((0, before, "before"), (culprit, line.last, "after")):
        if start == end or not (judge.runs(start) and judge.runs(end)):
            continue
        pair_verdict = judge.compare(start, end, shares=2 * HALVES)
        if pair_verdict.verdict in (*WORSE, "improved"):
            alike = "in the same direction" if judge.judges_time else "besides"
            sign = "of opposite sign" if pair_verdict.verdict == "improved" else alike
            notes.append(
                f"another change {sign} lies {where} it, between {{{start}}} and {{{end}}}: {pair_verdict.reason}"
            )
    return tuple(notes)
