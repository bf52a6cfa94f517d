"""Decides after every run of a bisection: the next runs, or the point that changed the metric."""

from collections.abc import Mapping, Sequence, Set

from tasks.bisect.evidence import WITNESSES, is_proven, judge_ends
from tasks.bisect.posterior import Belief, Observation, choose_point, find_belief
from tasks.bisect.questions import SAME, say_better, say_unsure
from tasks.bisect.terms import ENDS, MOST_OF_POINT, WORSE, Finish, Judge, Limits, Line, Rated, Train
from tasks.diff.decide_noisy import CHANCE
from tasks.diff.noise import Noise
from tasks.records import Mark

SURE = 0.95  # posterior from which a point is compared with the point before it, and named if that confirms it
NOT_SURE = "the runs that are allowed do not make it sure (--max-runs or --budget allow more)"
REFUTED = 1e-4  # factor on the prior weight of a suspect whose comparison with the point before it shows no change


type Marks = Mapping[int, tuple[Mark, str]]  # point → its mark, and the reason


def mark_points(line: Line, judge: Judge) -> dict[int, tuple[Mark, str]]:
    """Return point → (mark, reason) for every point with runs or a failure, without the ends, by the verdict rule."""
    return {point: _mark(line, judge, point) for point in range(1, line.last) if line.alike[point] == point
            and (judge.runs(point) or judge.failed(point))}  # fmt: skip


def _mark(line: Line, judge: Judge, point: int) -> tuple[Mark, str]:
    if why := judge.failed(point):
        return "skipped", why
    from_good, to_bad = judge.compare(0, point, shares=ENDS), judge.compare(point, line.last, shares=ENDS)
    told = f"against good: {from_good.text}" if from_good.text else from_good.verdict
    if from_good.verdict in WORSE:
        return ("between" if to_bad.verdict in (*WORSE, "improved") else "bad"), told
    if from_good.verdict in ("same", "improved"):
        return "good", told
    if to_bad.verdict == "same" and not judge.varies:
        return "bad", f"against bad: {to_bad.text or 'same'}"
    return ("good" if to_bad.verdict in WORSE and judge.varies else "unknown"), told


def next_action(line: Line, judge: Judge, limits: Limits, *, spent_s: float = 0.0) -> Train | Finish:
    """Return the next runs, or the answer. The result depends on finished runs alone, so a killed search can resume."""
    ends = judge_ends(line, judge)
    if ends.verdict not in WORSE:
        return _look_at_ends(line, judge, limits, ends, spent_s)
    marks = mark_points(line, judge)
    doubtful = _doubtful(judge, marks)
    if doubtful and _may_train(doubtful, judge, line, limits, spent_s):
        return Train(points=doubtful, why="bad before good: once more")
    first, notes = _last_good(line, marks)
    refuted: set[int] = set()
    while True:
        weights = _weights(line, first, refuted)
        if not any(weights):
            why = "no point of the line can have caused it: their source and their programs are equal"
            return Finish(outcome="range", why=why, rated=ends, notes=notes)
        belief = believe(line, judge, weights, marks, first)
        culprit = int(belief.culprits.argmax())
        if belief.culprits[culprit] < SURE:
            return _explore(line, judge, limits, belief, marks, first, spent_s, notes)
        before = line.alike[culprit - 1] if line.alike[culprit - 1] or first == 0 else first
        pairs = ENDS * max(1, sum(1 for point in _trained(line, judge) if judge.runs(line.alike[point - 1])))
        after = line.alike[culprit]
        rated = Rated(verdict="unknown")
        if not judge.varies and _is_settled(line, marks, before, after, first):
            rated = ends
        elif all(judge.runs(point) and not judge.failed(point) for point in (before, after)):
            rated = judge.compare(before, after, shares=pairs)
        if is_proven(line, judge, belief, (before, after), rated, CHANCE / pairs):
            return Finish(
                outcome="found", why="", culprit=culprit, before=before, rated=rated,
                notes=(*notes, *_other_changes(line, judge, before, after)),
            )  # fmt: skip
        if rated.verdict in ("same", "improved") and culprit not in refuted:
            refuted.add(culprit)
            continue
        pair = (before, after)
        stuck = any(judge.failed(point) or judge.runs(point) >= MOST_OF_POINT for point in pair)
        fewer = _fewer(judge, before, after, rated)
        if stuck or not _may_train(fewer, judge, line, limits, spent_s):
            return _range(belief, ends, notes, NOT_SURE)
        return Train(points=fewer, why="the suspect and the point before it, side by side")


def find_current_belief(line: Line, judge: Judge) -> Belief | None:
    """Return the posterior from the finished runs; None if the ends do not differ or no point can be the culprit."""
    if judge_ends(line, judge).verdict not in WORSE:
        return None
    marks = mark_points(line, judge)
    first, _ = _last_good(line, marks)
    weights = _weights(line, first, set())
    return believe(line, judge, weights, marks, first) if any(weights) else None


def _is_settled(line: Line, marks: Marks, before: int, after: int, first: int) -> bool:
    """Return whether the marks show that `before` is like good and `after` like bad, for a metric without noise."""
    is_good = before in (0, first) or marks.get(before, ("", ""))[0] == "good"
    return is_good and (after == line.last or marks.get(after, ("", ""))[0] == "bad")


def _weights(line: Line, first: int, refuted: Set[int]) -> list[float]:
    return [
        0.0 if point <= first else weight * (REFUTED if point in refuted else 1)
        for point, weight in enumerate(line.weights)
    ]


def believe(line: Line, judge: Judge, weights: Sequence[float], marks: Marks, first: int) -> Belief:
    """Return the posterior of the points after `first`, a point that is as good as the good end."""
    seen: list[Observation] = []
    if judge.varies:
        noise = judge.noise
        for point in (0, *_trained(line, judge), line.last):
            at = first if line.alike[first] == point else point
            if at >= first and not judge.failed(point):
                seen += [one.model_copy(update={"point": at}) for one in judge.observe(point)]
    else:  # without noise, each point's mark is its level: 0 for good, 1 for bad
        noise = Noise(scale=0.05, df=100.0)
        values = {"good": 0.0, "bad": 1.0, "between": 1.0}
        marked = {point: values[mark] for point, (mark, _) in marks.items() if mark in values and point > first}
        levels = {first: 0.0, line.last: 1.0} | marked
        seen = [Observation(point=point, value=value) for point, value in levels.items()]
    return find_belief(seen, weights, noise)


def _fewer(judge: Judge, before: int, after: int, rated: Rated) -> tuple[int, ...]:
    """Return the points of a pair to run next: a worse `after` until it has WITNESSES runs, else those with fewest."""
    if rated.verdict in WORSE and judge.runs(after) < WITNESSES:
        return (after,)
    fewest = min(judge.runs(before), judge.runs(after))
    return tuple(point for point in (before, after) if judge.runs(point) == fewest)


def _look_at_ends(line: Line, judge: Judge, limits: Limits, ends: Rated, spent_s: float) -> Train | Finish:
    """Return further runs of both ends, if they are undecided and within the limits; else the reason to stop."""
    both = min(judge.runs(0), judge.runs(line.last))
    failed = next((judge.failed(point) for point in (0, line.last) if judge.failed(point)), "")
    if failed:
        return Finish(outcome="no difference", why=f"an end cannot be judged: {failed}", rated=ends)
    allowed = MOST_OF_POINT if limits.are_given else 2 * limits.ends if judge.varies else limits.ends
    fewer = tuple(point for point in (0, line.last) if judge.runs(point) == both)
    if ends.verdict == "unknown" and both < allowed and _may_train(fewer, judge, line, limits, spent_s):
        return Train(points=fewer, why="both ends")
    if ends.verdict == "same":
        why = SAME
    else:
        is_better = ends.verdict == "improved"
        why = say_better(ends.text) if is_better else say_unsure(both, ends.text, ends.wanted, ends.cost)
    return Finish(outcome="no difference", why=why, rated=ends)


def _explore(
    line: Line, judge: Judge, limits: Limits, belief: Belief, marks: Marks, first: int, spent_s: float,
    notes: tuple[str, ...],
) -> Train | Finish:  # fmt: skip
    """Return the run with the most information, or the remaining range of suspects if no run is possible."""
    settled = {point for point, (mark, _) in marks.items() if not judge.varies and mark != "unknown"}
    open_points = [
        point
        for point in range(first + 1, line.last)
        if line.alike[point] == point
        and point not in settled
        and not judge.failed(point)
        and judge.runs(point) < MOST_OF_POINT
    ]
    point = choose_point(belief, open_points)
    if point is None:
        skipped = [other for other, (mark, _) in marks.items() if mark == "skipped"]
        why = f"{len(skipped)} of them could not be judged" if skipped else "no run of any of them would tell more"
        return _range(belief, None, notes, why)
    if not _may_train((point,), judge, line, limits, spent_s):
        return _range(belief, None, notes, NOT_SURE)
    return Train(points=(point,), why=f"{len(_smallest(belief))} points are left")


def _smallest(belief: Belief) -> list[int]:
    """Return the smallest set of points whose posterior probabilities sum to SURE, in the line's order."""
    held, found = 0.0, []
    for point in belief.culprits.argsort()[::-1]:
        found.append(int(point))
        held += float(belief.culprits[point])
        if held >= SURE:
            break
    return sorted(found)


def _range(belief: Belief, rated: Rated | None, notes: tuple[str, ...], why: str) -> Finish:
    return Finish(outcome="range", why=why, suspects=tuple(_smallest(belief)), rated=rated, notes=notes)


def _trained(line: Line, judge: Judge) -> list[int]:
    return [point for point in range(1, line.last) if line.alike[point] == point and judge.runs(point)
            and not judge.failed(point)]  # fmt: skip


def _may_train(points: Sequence[int], judge: Judge, line: Line, limits: Limits, spent_s: float) -> bool:
    """Return whether one more run of each of these points is within the limits."""
    done = sum(judge.runs(point) for point in range(line.last + 1) if line.alike[point] == point or point == line.last)
    return limits.allow(done + len(points), spent_s)


def _last_good(line: Line, marks: Marks) -> tuple[int, tuple[str, ...]]:
    """Return the last point with good's source, or a later one marked good after a bad one; and notes about it."""
    first = max((point for point in range(line.last) if line.alike[point] == 0), default=0)
    again = any(line.weights[: first + 1])
    notes = [f"{{{first}}} has good's source again: what came before it went with it"] if again else []
    bad = min((point for point, (mark, _) in marks.items() if mark == "bad" and point > first), default=None)
    good = max((point for point, (mark, _) in marks.items() if mark == "good"), default=0)
    if bad is not None and good > bad:
        notes.append(f"it comes, goes and comes again: bad at {{{bad}}}, good again at {{{good}}}")
        first = good
    return first, tuple(notes)


def _doubtful(judge: Judge, marks: Marks) -> tuple[int, ...]:
    """Return points marked bad before good, or good after bad, by a single run: this may be noise. Times only."""
    bad = [point for point, (mark, _) in marks.items() if mark in ("bad", "between")]
    good = [point for point, (mark, _) in marks.items() if mark == "good"]
    if not judge.varies or not bad or not good or max(good) < min(bad):
        return ()
    within = [point for point in (*bad, *good) if min(bad) <= point <= max(good)]
    return tuple(sorted(point for point in within if judge.runs(point) < WITNESSES))


def _other_changes(line: Line, judge: Judge, before: int, culprit: int) -> tuple[str, ...]:
    """Return sentences about other sure changes, before and after the culprit, from the finished runs."""
    notes = []
    for start, end, where in ((0, before, "before"), (culprit, line.last, "after")):
        if start == end or not (judge.runs(start) and judge.runs(end)):
            continue
        rated = judge.compare(start, end, shares=2 * ENDS)
        if rated.verdict in (*WORSE, "improved"):
            alike = "in the same direction" if judge.varies else "besides"
            sign = "of opposite sign" if rated.verdict == "improved" else alike
            notes.append(f"another change {sign} lies {where} it, between {{{start}}} and {{{end}}}: {rated.text}")
    return tuple(notes)
