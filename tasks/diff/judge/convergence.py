"""Judges convergence: the loss curves of a reference's seeds and of a candidate's runs → a `ConvergenceRecord`.

Float64 shows that a change computes another function; it does not show whether training still converges as well. Equal
settings with other seeds scatter, and this scatter is the measure. Losses are compared at the last position that all
runs reached, samples to the target as the position at which each curve falls to it. Both are judged by Student's t on
logarithms, each at half of CHANCE, with a prior for the scatter of seeds (Smyth's moderated t, as for step times).
"""

from collections.abc import Sequence
from math import exp, expm1, isfinite, log, sqrt

import numpy as np
from numpy.typing import NDArray

from tasks.diff.examine.distributions import student_below, student_quantile
from tasks.diff.judge.effect import move_together
from tasks.records.compared_case import Verdict
from tasks.records.convergence import MIN_SEEDS, Band, ConvergenceRecord, ConvergenceRow, LossCurve, Oddity, Shape
from tasks.records.text import counted, show_interval

type Values = NDArray[np.float64]

CHANCE = 0.01  # probability that equal sides are called different
CONFIDENCE, POWER = 0.99, 0.8
MAX_SEEDS = 50  # more are never suggested
# the final loss is the mean of this share of the common evaluations, at least of LAST: one alone has its step's noise
LAST, LAST_SHARE = 3, 0.36
# How seeds scatter: standard deviation of the logarithm, and degrees of freedom of this statement. Fitted to 57 systems
# of MLPerf Training 5.1 with ten seeds each (llama31_8b, llama2_70b_lora, flux1); halves of them give 0.16 to 0.17 %
# with 2 to 3, and 4.1 to 4.3 % with 4 to 9
PRIORS = {"final_loss": (0.0016, 2.4), "to_target": (0.042, 5.5)}
TOLERANCES = {"final_loss": 0.005, "to_target": 0.10}  # of the reference; the same up to these
TITLES = {"final_loss": "Final loss", "to_target": "To the target"}
FINEST = 1e-6  # smallest scatter assumed, as a logarithm of a ratio: the digits of a log
APART = 1.5  # largest ratio of a reference seed's final loss to the median of all; above, this seed diverged


class ConvergenceError(ValueError):
    """The curves cannot be compared; the message says why, and what to do."""


def judge_convergence(
    reference: Sequence[LossCurve],
    candidate: Sequence[LossCurve],
    *,
    target: float | None = None,
    same_seeds: bool = False,
) -> ConvergenceRecord:
    """Return the comparison of two sides. Raises ConvergenceError for curves that cannot be compared.

    same_seeds: the n-th runs of both sides have one seed.
    """
    check_sides(reference, candidate)
    grid = common_positions(reference, [one for one in candidate if is_finite(one)])
    left = values_at(reference, grid)
    alive = [one for one in candidate if is_finite(one)]
    oddities = [oddity for one in candidate if (oddity := find_oddity(one, reference))]
    rows = []
    if alive:
        right = values_at(alive, grid)
        last = slice(-max(LAST, round(LAST_SHARE * len(grid))), None)
        pairs = same_seeds and len(alive) == len(reference)
        finals = (np.log(side[:, last]).mean(axis=1) for side in (left, right))
        rows.append(_decide("final_loss", *finals, same_seeds=pairs))
        if target is not None:
            rows.append(_row_of_target(reference, alive, target, same_seeds=pairs))
    words = {row.verdict for row in rows}
    dead = len(candidate) - len(alive)
    order: tuple[Verdict, ...] = ("regressed", "unknown", "improved", "same")
    verdict: Verdict = "regressed" if dead else next(word for word in order if word in words)
    if verdict in ("same", "improved") and _common_shape(oddities, len(candidate)):
        verdict = "changed"
    return ConvergenceRecord(
        verdict=verdict, headline=_headline(verdict, rows, oddities, (dead, len(candidate))), rows=tuple(rows),
        band=make_band(reference, reference_grid(reference)), oddities=tuple(oddities), reference=tuple(reference),
        candidate=tuple(candidate), target=target,
    )  # fmt: skip


def convergence_status(records: Sequence[ConvergenceRecord]) -> int:
    """Return the exit status: 1 if a verdict is *regressed* or *changed*, else 3 if one is *unknown*, else 0."""
    words = {record.verdict for record in records}
    return 1 if words & {"regressed", "changed"} else 3 if "unknown" in words else 0


def check_sides(reference: Sequence[LossCurve], candidate: Sequence[LossCurve]) -> None:
    """Raise ConvergenceError for too few seeds, a reference that diverged, or curves without a common position."""
    if len(reference) < MIN_SEEDS:
        raise ConvergenceError(
            f"{counted(len(reference), 'reference seed')}: at least {MIN_SEEDS} show how much seeds scatter; train "
            f"{counted(MIN_SEEDS - len(reference), 'more seed')} of the reference"
        )
    if not candidate:
        raise ConvergenceError("no log of the candidate; give --candidate LOG…")
    for one in (*reference, *candidate):
        if not one.positions:
            raise ConvergenceError(f"{one.name}: has no loss at any step; give logs with training or evaluation losses")
    units = {one.unit for one in (*reference, *candidate)}
    if len(units) > 1:
        raise ConvergenceError("some logs count samples and others steps; give logs of one kind")
    finals = [one.losses[-1] for one in reference]
    usual = float(np.median([loss for loss in finals if isfinite(loss)] or [np.nan]))
    for one in reference:
        if not is_finite(one) or not one.losses[-1] <= APART * usual:
            raise ConvergenceError(
                f"{one.name}: this reference seed diverged (its last loss is {one.losses[-1]:g}, the median of all "
                f"{usual:g}); leave it out, or train the reference again"
            )


def is_finite(curve: LossCurve) -> bool:
    """Return whether every loss of a run is a positive number."""
    return all(isfinite(loss) and loss > 0 for loss in curve.losses)


def reference_grid(reference: Sequence[LossCurve]) -> list[float]:
    """Return the positions of the first seed that lie inside the curves of all seeds."""
    begin, end = max(one.positions[0] for one in reference), min(one.positions[-1] for one in reference)
    return [position for position in reference[0].positions if begin <= position <= end]


def common_positions(reference: Sequence[LossCurve], candidate: Sequence[LossCurve]) -> list[float]:
    """Return the positions of the reference inside all curves. Raises ConvergenceError if there is none."""
    sides = [*reference, *candidate]
    begin, end = max(one.positions[0] for one in sides), min(one.positions[-1] for one in sides)
    found = [position for position in reference_grid(reference) if begin <= position <= end]
    if not found:
        unit = reference[0].unit
        raise ConvergenceError(
            f"the curves share no {unit}: the reference has {_span(reference)}, the candidate {_span(candidate)}; give "
            "logs of the same part of the training"
        )
    return found


def _span(side: Sequence[LossCurve]) -> str:
    return f"{min(one.positions[0] for one in side):g} to {max(one.positions[-1] for one in side):g}"


def values_at(side: Sequence[LossCurve], grid: Sequence[float]) -> Values:
    """Return [runs, positions]: each run's loss, interpolated in the logarithm of the position."""
    return np.array([np.interp(np.log(grid), np.log(one.positions), one.losses) for one in side])


def make_band(reference: Sequence[LossCurve], grid: Sequence[float]) -> Band:
    """Return the prediction interval of one more seed at each position."""
    values = np.log(values_at(reference, grid))
    count = len(reference)
    half = float(student_quantile(count - 1, (1 + CONFIDENCE) / 2)) * sqrt(1 + 1 / count) * values.std(axis=0, ddof=1)
    middle = values.mean(axis=0)
    means, lows, highs = (tuple(np.exp(part).tolist()) for part in (middle, middle - half, middle + half))
    return Band(positions=tuple(grid), means=means, lows=lows, highs=highs)


def position_of(curve: LossCurve, target: float) -> float | None:
    """Return the position at which a curve first falls to the target, interpolated; None if it never does."""
    below = [index for index, loss in enumerate(curve.losses) if loss <= target]
    if not below:
        return None
    index = below[0]
    if not index:
        return curve.positions[0]
    x, y = np.log(curve.positions[index - 1 : index + 1]), curve.losses[index - 1 : index + 1]
    return exp(float(x[0] + (x[1] - x[0]) * (y[0] - target) / (y[0] - y[1])))


def _row_of_target(
    reference: Sequence[LossCurve], candidate: Sequence[LossCurve], target: float, *, same_seeds: bool
) -> ConvergenceRow:
    """Return the row of the samples or steps to the target loss."""
    sides = [[position_of(one, target) for one in side] for side in (reference, candidate)]
    title = f"{reference[0].unit.capitalize()} to loss {target:g}"
    missed = [sum(one is None for one in side) for side in sides]
    if any(missed):
        share = f"{len(reference) - missed[0]} of {len(reference)} reference seeds and "
        share += f"{len(candidate) - missed[1]} of {len(candidate)} runs of the candidate reach {target:g}"
        return ConvergenceRow(
            metric="to_target", title=title, verdict="unknown", reason=f"{share}: train longer, or give --target-loss",
            baseline=None, candidate=None, effect=None, low=None, high=None, seen=None,
            each=(tuple(sides[0]), tuple(sides[1])),
        )  # fmt: skip
    left, right = (np.log(np.array(side, dtype=float)) for side in sides)
    return _decide("to_target", left, right, same_seeds=same_seeds).replace(title=title)


def _decide(metric: str, left: Values, right: Values, *, same_seeds: bool = False) -> ConvergenceRow:
    """Return the row of one figure from its logarithms. Both sides have one variance, of equal seeds.

    same_seeds: the n-th values are of one seed. If they rise and fall together, their differences alone are the noise.
    """
    counts = left.size, right.size
    stated, weight = PRIORS[metric]
    paired = same_seeds and move_together(left, right)
    if paired:
        weight = 1.0 - counts[0]  # so that df is that of the pairs: counts[0] - 1
        scatter = max(float((right - left).std(ddof=1)) / sqrt(2), FINEST)
    df = counts[0] + counts[1] - 2 + weight
    if not paired:
        squares = ((left - left.mean()) ** 2).sum() + ((right - right.mean()) ** 2).sum()
        scatter = sqrt((weight * stated**2 + squares) / df)
    error = scatter * sqrt(1 / counts[0] + 1 / counts[1])
    size = float(right.mean() - left.mean())
    p = float(2 * student_below(df, -abs(size) / error))
    half = float(student_quantile(df, (1 + CONFIDENCE) / 2)) * error
    allowed = TOLERANCES[metric]
    low, high = expm1(size - half), expm1(size + half)
    found = expm1(_least_found(scatter, df, *counts))
    shown = show_interval(expm1(size), low, high)
    wanted = None
    verdict: Verdict
    if p <= CHANCE / 2:
        verdict = "regressed" if size > 0 else "improved"
        reason = f"{shown}; by chance 1 time in {min(1 / p, 1000):.0f} or less often"
    elif max(-low, high) <= allowed:
        verdict, reason = "same", f"{shown}, inside ±{100 * allowed:g} %"
    else:
        verdict = "unknown"
        wanted = _seeds_wanted(abs(size), scatter, allowed, counts, weight)
        more = (
            "more than 50 seeds would be needed"
            if wanted is None
            else f"run {counted(wanted - min(counts), 'more seed')}"
        )
        reason = f"{shown}: not certainly inside or beyond ±{100 * allowed:g} %; {more}"
    reason += "; by pairs of one seed" if paired else ""
    reason += f"; with {counts[0]} + {counts[1]} seeds ±{100 * found:.2g} % would be seen"
    return ConvergenceRow.model_validate({
        "metric": metric, "title": TITLES[metric], "verdict": verdict, "reason": reason,
        "baseline": exp(left.mean()), "candidate": exp(right.mean()), "effect": expm1(size), "low": low, "high": high,
        "seen": found, "seeds_wanted": wanted,
        "each": (tuple(np.exp(left).tolist()), tuple(np.exp(right).tolist())),
    })  # fmt: skip


def _least_found(scatter: float, df: float, left: int, right: int) -> float:
    """Return the difference that these numbers of seeds find with probability POWER, as a logarithm."""
    quantiles = float(student_quantile(df, 1 - CHANCE / 4)) + float(student_quantile(df, POWER))
    return quantiles * scatter * sqrt(1 / left + 1 / right)


def _seeds_wanted(size: float, scatter: float, allowed: float, counts: tuple[int, int], weight: float) -> int | None:
    """Return the seeds of each side that would probably decide, if the estimates are true; None above MAX_SEEDS."""
    for count in range(min(counts) + 1, MAX_SEEDS + 1):
        df, error = 2 * count - 2 + weight, scatter * sqrt(2 / count)
        lucky = float(student_quantile(df, POWER))
        decided = size >= error * (lucky + float(student_quantile(df, 1 - CHANCE / 4)))
        inside = log(1 + allowed) - size >= error * (lucky + float(student_quantile(df, (1 + CONFIDENCE) / 2)))
        if decided or inside:
            return count
    return None


def find_oddity(curve: LossCurve, reference: Sequence[LossCurve]) -> Oddity | None:
    """Return how a run of the candidate leaves the band for good, for a while, or at its start; None if it does not.

    The band of one position holds 99 of 100 seeds; a run is judged at all its positions, so a single excursion counts
    only beyond twice the band's half width.
    """
    lost = next((at for at, loss in zip(curve.positions, curve.losses, strict=True) if not isfinite(loss)), None)
    if lost is not None:
        return Oddity(
            run=curve.name,
            shape="divergence",
            position=lost,
            text=f"its loss is not finite from {lost:g} {curve.unit} on",
        )
    begin, end = curve.positions[0], curve.positions[-1]
    grid = [position for position in reference_grid(reference) if begin <= position <= end]
    if len(grid) > 1:
        band = make_band(reference, grid)
        loss, mean = (np.log(np.asarray(part)) for part in (values_at([curve], grid)[0], band.means))
        outside = loss - mean > 2 * (np.log(band.highs) - mean)
        first = int(np.argmax(outside)) if outside.any() else -1
        if outside[-1] and outside[first:].all() and len(grid) - first > 1 and first > 0:
            text = f"from {grid[first]:g} {curve.unit} on its loss lies above all seeds, and stays there"
            return Oddity(run=curve.name, shape="divergence", position=grid[first], text=text)
        if outside[0] and not outside[-1]:
            back = grid[int(np.flatnonzero(outside)[-1])]
            text = f"until {back:g} {curve.unit} its loss lies above all seeds, later among them"
            return Oddity(run=curve.name, shape="late start", position=grid[0], text=text)
        if outside.any() and not outside[-1]:
            text = f"at {grid[first]:g} {curve.unit} its loss jumps above all seeds, and returns"
            return Oddity(run=curve.name, shape="spike", position=grid[first], text=text)
    shortest = min(one.positions[-1] for one in reference)
    if not curve.reached and end < shortest:
        text = f"it ends at {end:g} {curve.unit}; the shortest reference seed at {shortest:g}"
        return Oddity(run=curve.name, shape="stopped early", position=end, text=text)
    return None


def _common_shape(oddities: Sequence[Oddity], runs: int) -> Shape | None:
    """Return how more than half of the candidate's runs leave the band, two or more. One of ten equal seeds may do."""
    shapes = [one.shape for one in oddities if one.shape != "stopped early"]
    common = max(shapes, key=shapes.count, default=None)
    return common if common and shapes.count(common) > max(runs / 2, 1) else None


def _headline(
    verdict: Verdict, rows: Sequence[ConvergenceRow], oddities: Sequence[Oddity], runs: tuple[int, int]
) -> str:
    """Return the sentence of the verdict. runs: how many of the candidate diverged, and how many it has."""
    if runs[0]:
        return f"{runs[0]} of {runs[1]} runs of the candidate diverged"
    if verdict == "same":
        return "the candidate converges as the reference's seeds do"
    if verdict == "changed":
        way = [one for one in oddities if one.shape == _common_shape(oddities, runs[1])]
        return (
            f"the end is as good as the reference's, the way is another: {way[0].shape} in {len(way)} of {runs[1]} "
            f"runs; {way[0].run}: {way[0].text}"
        )
    chosen = next(row for row in rows if row.verdict == verdict)
    return f"{chosen.title} {chosen.reason}"
