"""Returns, after every run of a bisection, the next runs or the result of the search.

A point is a commit or a package version. The ends are the first point (good) and the last one (bad). The culprit
is the point that changed the metric. A suspect is a point that may be the culprit.
"""

from collections.abc import Callable, Sequence, Set

from questions.bisect.bisected_metric import SAME, say_better, say_unsure
from questions.bisect.evidence import MIN_RUNS, is_proven, judge_ends
from questions.bisect.posterior import Belief, ObservedRun, choose_point, find_belief
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
from tasks.diff.examine.circumstances import CHANCE
from tasks.diff.examine.noise import Noise
from tasks.records.bisection import Mark
from tasks.records.compared_case import Decision

SURE = 0.95  # posterior probability from which a suspect is compared with the point before it
NOT_SURE = "the runs that are allowed do not make it sure (--max-runs or --budget allow more)"
REFUTED = 1e-4  # factor on the prior weight of a suspect that the verdict rule finds no worse than the point before it


def mark_points(line: Line, judge: Judge) -> dict[int, tuple[Mark, str]]:
    """Return point → (mark, reason), by the verdict rule, for the points between the ends with runs or a failure.

    Points for which another point's runs stand are left out (see `Line.alike`).
    """
    return {point: _mark(line, judge, point) for point in range(1, line.last) if line.alike[point] == point
            and (judge.runs(point) or judge.failed(point))}  # fmt: skip


def _mark(line: Line, judge: Judge, point: int) -> tuple[Mark, str]:
    if why := judge.failed(point):
        return "skipped", why
    from_good, to_bad = judge.compare(0, point, shares=HALVES), judge.compare(point, line.last, shares=HALVES)
    told = f"against good: {from_good.reason}" if from_good.reason else from_good.verdict
    if from_good.verdict in WORSE:
        return ("between" if to_bad.verdict in (*WORSE, "improved") else "bad"), told
    if from_good.verdict in ("same", "improved"):
        return "good", told
    if to_bad.verdict == "same" and not judge.judges_time:
        return "bad", f"against bad: {to_bad.reason or 'same'}"
    return ("good" if to_bad.verdict in WORSE and judge.judges_time else "unknown"), told


class _MarkedLine:
    """A line of points with the marks of `mark_points`.

    last_good: the last point with good's source, or a later one that is marked good after a bad one. The culprit comes
    after it. notes: sentences about `last_good`.
    """

    def __init__(self, line: Line, judge: Judge) -> None:
        self.line, self.judge = line, judge
        self.marks = {point: mark for point, (mark, _) in mark_points(line, judge).items()}
        # the last point with good's source; replaced below by a later good point that follows a bad one
        self.last_good = max((point for point in range(line.last) if line.alike[point] == 0), default=0)
        self.notes: tuple[str, ...] = ()
        if any(line.weights[: self.last_good + 1]):
            self.notes = (f"{{{self.last_good}}} has good's source again: what came before it went with it",)
        bad = min((point for point in self.marked("bad") if point > self.last_good), default=None)
        good = max(self.marked("good"), default=0)
        if bad is not None and good > bad:
            self.notes += (f"it comes, goes and comes again: bad at {{{bad}}}, good again at {{{good}}}",)
            self.last_good = good

    def marked(self, *marks: Mark) -> list[int]:
        """Return the points with one of these marks."""
        return [point for point, mark in self.marks.items() if mark in marks]

    @property
    def trained(self) -> list[int]:
        """The points between the ends that have runs and can be judged."""
        return [point for point in range(1, self.line.last) if self.line.alike[point] == point
                and self.judge.runs(point) and not self.judge.failed(point)]  # fmt: skip

    @property
    def doubtful(self) -> list[int]:
        """The points with few runs from the first one marked bad or between to the last one marked good.

        Only points with one of these marks and fewer than MIN_RUNS runs count. Their marks may be noise. Empty if the
        metric is no time, or if no bad point comes before a good one.
        """
        bad, good = self.marked("bad", "between"), self.marked("good")
        if not self.judge.judges_time or not bad or not good:
            return []
        within = [point for point in (*bad, *good) if min(bad) <= point <= max(good)]
        return sorted(point for point in within if self.judge.runs(point) < MIN_RUNS)

    def find_belief(self, refuted: Set[int] = frozenset()) -> Belief | None:
        """Return the posterior over the points after `last_good`; None if no point can be the culprit.

        refuted: points that the verdict rule finds no worse than the point before them.
        """
        line, judge, last_good = self.line, self.judge, self.last_good
        weights = [
            0.0 if point <= last_good else weight * (REFUTED if point in refuted else 1)
            for point, weight in enumerate(line.weights)
        ]
        if not any(weights):
            return None
        if not judge.judges_time:  # without noise a point's mark is its level: 0 for good, 1 for bad and between
            levels = {last_good: 0.0, line.last: 1.0}
            levels |= {point: float(self.marks[point] != "good") for point in self.marked("good", "bad", "between")
                       if point > last_good}  # fmt: skip
            seen = [ObservedRun(point=point, value=value) for point, value in levels.items()]
            return find_belief(seen, weights, Noise(scale=0.05, df=100.0))
        seen = []
        for point in (0, *self.trained, line.last):
            at = last_good if line.alike[last_good] == point else point
            if at >= last_good and not judge.failed(point):
                seen += [one.replace(point=at) for one in judge.observe(point)]
        return find_belief(seen, weights, judge.noise)

    def find_open(self) -> list[int]:
        """Return the points between `last_good` and the bad end that another run may help to judge."""
        settled = [] if self.judge.judges_time else [point for point, mark in self.marks.items() if mark != "unknown"]
        return [
            point
            for point in range(self.last_good + 1, self.line.last)
            if self.line.alike[point] == point
            and point not in settled
            and not self.judge.failed(point)
            and self.judge.runs(point) < MAX_RUNS_OF_POINT
        ]

    def is_settled(self, before: int, after: int) -> bool:
        """Return whether the marks show that `before` is good and `after` is bad. False if the metric is a time."""
        is_good = before in (0, self.last_good) or self.marks.get(before) == "good"
        return not self.judge.judges_time and is_good and (after == self.line.last or self.marks.get(after) == "bad")


def next_action(line: Line, judge: Judge, limits: SearchLimits, *, spent_s: float = 0.0) -> Train | Finish:
    """Return the next runs, or the result. A killed search can resume, because the finished runs are its only state."""

    def may_train(points: Sequence[int]) -> bool:
        done = sum(judge.runs(point) for point, like in enumerate(line.alike) if point in (like, line.last))
        return limits.allow(done + len(points), spent_s)

    ends_verdict = judge_ends(line, judge)
    if ends_verdict.verdict not in WORSE:
        return _compare_ends(line, judge, limits, ends_verdict, may_train)
    marked = _MarkedLine(line, judge)
    if marked.doubtful and may_train(marked.doubtful):
        return Train(points=tuple(marked.doubtful), why="bad before good: once more")
    refuted: set[int] = set()
    while True:
        belief = marked.find_belief(refuted)
        if belief is None:
            why = "no point of the line can have caused it: their source and their programs are equal"
            return Finish(outcome="range", why=why, pair_verdict=ends_verdict, notes=marked.notes)
        culprit = int(belief.culprits.argmax())
        if belief.culprits[culprit] < SURE:
            return _explore(marked, belief, may_train)
        before = line.alike[culprit - 1] if line.alike[culprit - 1] or marked.last_good == 0 else marked.last_good
        # the culprit's half of the false-alarm probability is divided among the compared pairs
        shares = HALVES * max(1, sum(1 for point in marked.trained if judge.runs(line.alike[point - 1])))
        after = line.alike[culprit]
        pair_verdict = Decision(verdict="unknown", reason="")
        if marked.is_settled(before, after):
            pair_verdict = ends_verdict
        elif all(judge.runs(point) and not judge.failed(point) for point in (before, after)):
            pair_verdict = judge.compare(before, after, shares=shares)
        if is_proven(line, judge, belief, (before, after), pair_verdict, CHANCE / shares):
            return Finish(
                outcome="found", why="", culprit=culprit, before=before, pair_verdict=pair_verdict,
                notes=(*marked.notes, *_other_changes(line, judge, before, after)),
            )  # fmt: skip
        if pair_verdict.verdict in ("same", "improved") and culprit not in refuted:
            refuted.add(culprit)
            continue
        stuck = any(judge.failed(point) or judge.runs(point) >= MAX_RUNS_OF_POINT for point in (before, after))
        fewest = min(judge.runs(before), judge.runs(after))
        points = tuple(point for point in (before, after) if judge.runs(point) == fewest)
        if pair_verdict.verdict in WORSE and judge.runs(after) < MIN_RUNS:
            points = (after,)
        if stuck or not may_train(points):
            return _name_range(belief, marked.notes, NOT_SURE, ends_verdict)
        return Train(points=points, why="the suspect and the point before it, side by side")


def find_current_belief(line: Line, judge: Judge) -> Belief | None:
    """Return the posterior from the finished runs; None if bad is not surely worse or no point can be the culprit."""
    return _MarkedLine(line, judge).find_belief() if judge_ends(line, judge).verdict in WORSE else None


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


def _explore(marked: _MarkedLine, belief: Belief, may_train: Callable[[Sequence[int]], bool]) -> Train | Finish:
    """Return one run of the most informative point. Return the range of suspects if no run helps or is allowed."""
    point = choose_point(belief, marked.find_open())
    if point is None:
        skipped = len(marked.marked("skipped"))
        why = f"{skipped} of them could not be judged" if skipped else "no run of any of them would tell more"
        return _name_range(belief, marked.notes, why)
    if not may_train((point,)):
        return _name_range(belief, marked.notes, NOT_SURE)
    return Train(points=(point,), why=f"{len(_find_suspects(belief))} points are left")


def _find_suspects(belief: Belief) -> tuple[int, ...]:
    """Return the smallest set of points whose posterior probabilities sum to SURE or more, in the line's order."""
    held, suspects = 0.0, []
    for point in belief.culprits.argsort()[::-1]:
        suspects.append(int(point))
        held += float(belief.culprits[point])
        if held >= SURE:
            break
    return tuple(sorted(suspects))


def _name_range(belief: Belief, notes: tuple[str, ...], why: str, pair_verdict: Decision | None = None) -> Finish:
    return Finish(outcome="range", why=why, suspects=_find_suspects(belief), pair_verdict=pair_verdict, notes=notes)


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
