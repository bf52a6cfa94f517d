"""Decides the verdict on a metric with a value at every step, from both arms' curves: docs/verdict.md, section 4.

An arm is one side of a comparison of runs. The curves of a metric, a `MetricParity`, are its values in all runs.
"""

from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from configs.frozen import Frozen
from configs.verdict_rules import Tolerance, VerdictRules
from tasks.diff.examine.circumstances import CHANCE
from tasks.diff.examine.distributions import student_below, student_quantile
from tasks.diff.examine.offsets import (
    ROUNDING,
    is_offset,
    is_one_digit,
)
from tasks.diff.examine.parity import LOSS_LIKE, MIN_STEPS, MetricParity
from tasks.diff.judge.decide import MIN_REPEATS, show_threshold, threshold_of
from tasks.diff.judge.decide_noisy import NO_USE, ask_for_more, show_chance, show_runs
from tasks.diff.judge.effect import CONFIDENCE
from tasks.metrics.printed import Values
from tasks.records.compared_case import Decision, Verdict
from tasks.records.text import counted

ORDER: tuple[Verdict, ...] = ("same", "improved", "unknown", "changed", "regressed")
OTHER_DRAWS = "other first weights or other data"  # in words: other random draws
MAX_BLOCKS = 4  # blocks of steps whose means are compared; they share the chance of a false difference


class Block(Frozen):
    """A block of consecutive steps: the difference of the arms' mean values over it."""

    first: int  # number of its first step
    last: int  # number of its last step
    baseline: float  # the baseline's mean value
    difference: float  # candidate − baseline
    half: float = inf  # half of the width of the difference's confidence interval; inf if unknown
    chance: float = 1.0  # p-value of the difference; 1 if unknown

    @property
    def steps(self) -> str:
        """The block's steps in words: `step 3`, `steps 3–9`."""
        return f"step {self.first}" if self.first == self.last else f"steps {self.first}–{self.last}"

    @property
    def furthest(self) -> float:
        """The largest absolute difference inside the confidence interval."""
        return abs(self.difference) + self.half


class CurveContext(Frozen):
    """The inputs that all decisions on the curves of a comparison share."""

    rules: VerdictRules
    proved: bool = False  # both arms are proved to run the same program
    other_draws: bool = False  # the arms are known to have other random first weights or other data
    instead: str = ""  # the alternative to more runs if only logs were given; else empty
    among: int = 1  # number of compared values, which share the chance of a false alarm
    rounding: Tolerance | None = None  # the largest difference of a loss that rounding can explain; None: unknown


def decide_value(curves: MetricParity, context: CurveContext) -> Decision:
    """Decide one value over all steps. If its name contains `loss`, lower is better; else no direction is better.

    The metric `loss` is *unknown* if it is constant over all steps of all runs, from MIN_STEPS steps on, because
    nothing was trained.
    """
    tolerances, parity = context.rules.tolerances, curves.parity
    if LOSS_LIKE not in parity.metric:
        return _decide_curve(
            curves, tolerances["step_values_of_varying_runs" if curves.varies else "step_values"], context
        )
    if parity.metric == "loss" and parity.first is None and _never_moves(curves):
        value = curves.sides[0][0][0]
        reason = f"the loss is {value:g} {_at_all_steps(parity.steps)} of every run: nothing was trained"
        return Decision(verdict="unknown", reason=reason, evidence=show_runs(parity.runs))
    tolerance = tolerances["loss_of_other_draws" if context.other_draws else "loss"]
    if curves.varies and not context.other_draws and not tolerance.relative and not tolerance.absolute:
        tolerance = tolerances["loss_of_varying_runs"]
    return _decide_curve(curves, tolerance, context, chance_limit=tolerances["loss_of_other_draws"])


def _never_moves(curves: MetricParity) -> bool:
    values = np.concatenate([side.ravel() for side in curves.sides])
    return curves.parity.steps >= MIN_STEPS and bool(np.all(values == values[0]))


def decide_values(parities: Sequence[MetricParity], context: CurveContext) -> Decision | None:
    """Return the worst decision over several values; its reason names the values it applies to. None without values."""
    if not parities:
        return None
    judged = [(item.parity, decide_value(item, context)) for item in parities]
    _, worst = max(judged, key=lambda pair: ORDER.index(pair[1].verdict))
    if worst.verdict == "same":
        return worst.replace(reason=f"{worst.reason}: {', '.join(parity.metric for parity, _ in judged)}")
    told = [(parity.metric, decision) for parity, decision in judged if decision.verdict == worst.verdict]
    name, first = told[0]
    return worst.replace(
        reason="; ".join(f"{metric} {decision.reason}" for metric, decision in told),
        claim=f"{name} {first.claim or first.reason}",
        not_finite=any(decision.not_finite for _, decision in told),
    )


def _decide_curve(
    curves: MetricParity, tolerance: Tolerance, context: CurveContext, *, chance_limit: Tolerance | None = None
) -> Decision:
    """Decide the curves of one value.

    `chance_limit`: for losses (lower is better), the largest difference that other first weights, other data or
    nondeterminism can cause; None for other values.
    """
    parity, allowed = curves.parity, show_threshold(tolerance, curves.unit)

    def say(verdict: Verdict, reason: str, **more: Any) -> Decision:
        limit = {"threshold": tolerance.absolute, "threshold_text": allowed, "evidence": show_runs(parity.runs)}
        return Decision(verdict=verdict, reason=reason, **(limit | more))

    if not parity.steps:
        return Decision(verdict="unknown", reason="the arms have no step in common")
    if broken := _judge_non_finite(curves):
        finite = curves.finite and _decide_curve(curves.finite, tolerance, context, chance_limit=chance_limit)
        if finite and broken[0] == "unknown" and finite.verdict in ("regressed", "changed"):
            return finite.replace(reason=f"{finite.reason}; {broken[1]}", not_finite=True)
        return say(*broken, not_finite=True)
    if parity.first is None and not curves.varies:
        several = f" of {parity.runs[0]} and {parity.runs[1]} runs" if max(parity.runs) > 1 else ""
        return say("same", f"equal to {parity.precision} {_at_all_steps(parity.steps, 'common ')}{several}")
    blocks = compare_blocks(curves.steps, curves.sides)
    seen = _describe(curves)
    last, where = blocks[-1], "; ".join(seen)
    # a loss that ends higher is worse; a lower one is different, but not certainly better
    word: Verdict = "regressed" if chance_limit is not None and last.difference > 0 else "changed"
    ends = f"{abs(last.difference):.4g} {'higher' if last.difference > 0 else 'lower'} in {last.steps}"
    band = None if context.proved else context.rounding  # one program rounds equally
    if chance_limit is not None and band is not None and _is_within(curves, band):
        word, ends = "changed", f"{ends}; rounding can explain it ({show_threshold(band)}: {band.why})"
    if not curves.varies and _is_within(curves, tolerance):
        return say("same", f"{where}; within {show_threshold(tolerance)}: {tolerance.why}")
    # if True, equal runs are known to have equal values, unless `curves.varies`
    known = context.proved or min(parity.runs) > 1
    small = is_one_digit(curves)
    if not curves.varies and (is_offset(curves.sides, exact=curves.exact, unit=curves.unit) or (known and not small)):
        return say(word, f"{where}; {ends}")
    furthest = max(blocks, key=lambda block: abs(block.difference))
    most = inf if chance_limit is None else threshold_of(chance_limit, furthest.baseline)
    sure = not curves.varies or min(parity.runs) == 1 or furthest.chance <= CHANCE / len(blocks) / context.among
    if chance_limit is not None and abs(furthest.difference) > most and sure:
        return say(word, f"{where}; {ends}: {OTHER_DRAWS} change it by at most {most:g} ({chance_limit.why})")
    if small and not curves.varies:  # `find_contradictions` reports it as the finding `last-digit`
        return say("same", f"{where}, by at most one unit of the last printed digit, which rounding can explain")
    if min(parity.runs) >= MIN_REPEATS:
        return say(*_judge_blocks(blocks, tolerance, word, where, context.among), claim=seen[0])
    asked = ask_for_more(min(parity.runs), MIN_REPEATS, context.instead)
    if chance_limit is not None and parity.first is not None and parity.first.step == int(curves.steps[0]):
        # only `maxview ingest` has this option
        way = "compare with --tolerances other-draws, or " if context.instead not in ("", NO_USE) else ""
        told = f"{where}: the arms may have {OTHER_DRAWS}, or the trainer may be nondeterministic"
        asked = f"{way}{asked}"
    else:
        told = f"{where}: {show_runs(parity.runs)} cannot distinguish this from run-to-run noise"
    wanted = None if context.instead == NO_USE else MIN_REPEATS
    return say("unknown", f"{told}; {asked}", runs_wanted=wanted, claim=told if len(seen) == 1 else seen[0])


def _judge_non_finite(curves: MetricParity) -> tuple[Verdict, str] | None:
    """Return the verdict on NaN and infinite values, and its reason; None if no run has any."""
    bad = [~np.isfinite(side) for side in curves.sides]
    runs = [int(side.any(axis=1).sum()) for side in bad]
    if not any(runs):
        return None
    where = [_steps_of(curves.steps, side.any(axis=0)) for side in bad]
    at = [side.any(axis=0) for side in bad]
    alone = [bool((at[0] & ~at[1]).any()), bool((at[1] & ~at[0]).any())]  # not finite in one arm only
    if all(runs) and alone != [False, True]:
        return "unknown", f"is NaN or infinite in both arms {' and '.join(dict.fromkeys(where))}"
    side = 1 if runs[1] else 0
    of = f" in {runs[side]} of {len(curves.sides[side])} runs" if len(curves.sides[side]) > 1 else ""
    arm = ("the baseline", "the candidate")[side]
    return ("regressed" if side else "improved"), f"is NaN or infinite in {arm} {where[side]}{of}"


def _at_all_steps(steps: int, kind: str = "") -> str:
    return f"at the one {kind}step" if steps == 1 else f"at all {steps} {kind}steps"


def _steps_of(steps: NDArray[np.int64], chosen: NDArray[np.bool_]) -> str:
    """Return the chosen steps in words."""
    at = np.flatnonzero(chosen)
    if not at.size:
        return "at no step"
    if at.size == len(steps) - at[0]:
        return f"from step {steps[at[0]]} on"
    return f"at {at.size} of {counted(len(steps), 'step')}, first at step {steps[at[0]]}"


def _judge_blocks(
    blocks: Sequence[Block], tolerance: Tolerance, word: Verdict, where: str, among: int
) -> tuple[Verdict, str]:
    """Return verdict and reason by Student's t test of the means over blocks. word: the verdict if the means differ."""
    limits = [threshold_of(tolerance, block.baseline) for block in blocks]
    beyond = [
        block
        for block, limit in zip(blocks, limits, strict=True)
        if block.chance <= CHANCE / len(blocks) / among and block.furthest > limit
    ]
    block = min(beyond, key=lambda block: block.chance) if beyond else max(blocks, key=lambda block: block.furthest)
    interval = f" ± {block.half:.2g}" if block.half else ""
    sizes = f"{where}; {block.difference:+.4g}{interval} over {block.steps}"
    if beyond:
        return word, f"{sizes}, {show_chance(block.chance)}"
    allowed = show_threshold(tolerance)
    if all(block.furthest <= limit for block, limit in zip(blocks, limits, strict=True)):
        return "same", f"{sizes}, inside {allowed} ({tolerance.why})"
    return "unknown", f"{sizes}: not certainly inside or beyond {allowed}"


def _is_within(curves: MetricParity, tolerance: Tolerance) -> bool:
    """Return whether the arms' first runs differ by no more than the tolerance at every step."""
    gaps = np.abs(curves.sides[1][0] - curves.sides[0][0])
    limits = np.array([threshold_of(tolerance, float(value)) for value in curves.sides[0][0]])
    return bool(np.all(gaps <= limits * (1 + ROUNDING)))


def _describe(curves: MetricParity) -> list[str]:
    """Return the first clauses of a reason: where the arms differ, that runs of one arm differ, or `equal`."""
    parity, first = curves.parity, curves.parity.first
    varying = ["runs of one arm differ among themselves"] if curves.varies else []
    if first is None:
        return varying or ["equal"]
    where = f"differs first at step {first.step} ({first.baseline} and {first.candidate})"
    where += "" if parity.largest_step == first.step else f", most at step {parity.largest_step}"
    return [where, *varying]


def compare_blocks(steps: NDArray[np.int64], sides: tuple[Values, Values]) -> tuple[Block, ...]:
    """Return the blocks with Student's t test of their means. With one run in an arm, `half` and `chance` stay unknown.

    sides: [runs, steps] of each arm. Neighbouring steps are not independent, so a run gives one mean per block.
    """
    counts = [len(side) for side in sides]
    degrees = sum(counts) - 2
    blocks = []
    for index in np.array_split(np.arange(len(steps)), min(len(steps), MAX_BLOCKS)):
        means = [side[:, index].mean(axis=1) for side in sides]
        difference = float(means[1].mean() - means[0].mean())
        spread = {}
        if min(counts) > 1:
            variance = sum(float(np.sum((side - side.mean()) ** 2)) for side in means) / degrees
            error = (variance * (1 / counts[0] + 1 / counts[1])) ** 0.5
            spread["half"] = float(student_quantile(degrees, (1 + CONFIDENCE) / 2)) * error
            spread["chance"] = (
                float(2 * student_below(degrees, -abs(difference) / error)) if error else float(not difference)
            )
        place = {"first": int(steps[index[0]]), "last": int(steps[index[-1]])}
        blocks.append(Block(**place, baseline=float(means[0].mean()), difference=difference, **spread))
    return tuple(blocks)
