"""Judges the step-by-step comparisons (curves): one row for the loss, one for all other deterministic values."""

from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from configs.comparison import Tolerance
from configs.schema import Frozen
from configs.verdict_rules import VerdictRules
from tasks.diff.arms import ArmRuns
from tasks.diff.curve_tests import Block, compare_blocks, is_offset
from tasks.diff.decide import LEAST_REPEATS, ROUNDING, show_threshold, threshold_of
from tasks.diff.decide_noisy import CHANCE, ask_for_more, show_chance, show_runs
from tasks.diff.metric_row import Arms, make_row, missing_decision
from tasks.diff.parity import LEAST_STEPS, LOSS_LIKE, MetricParity
from tasks.metrics.result_metrics import LOSS, VALUES
from tasks.records import Decision, Measured, MetricDiff, Verdict
from tasks.records.text import counted

ORDER: tuple[Verdict, ...] = ("same", "improved", "unknown", "changed", "regressed")
OTHER_DRAWS = "other first weights or other data"


def loss_row(arms: Arms, found: MetricParity, decision: Decision) -> MetricDiff:
    """Return the row of the losses, with the values of the first difference, else the number of steps."""
    cells = (_steps_cell(arms[0]), _steps_cell(arms[1]))
    metric, first = LOSS, found.parity.first
    if first is not None and missing_decision(cells, arms) is None:
        texts = (first.baseline, first.candidate)
        cells = (
            Measured(value=float(texts[0]), text=texts[0], source=found.places[0]),
            Measured(value=float(texts[1]), text=texts[1], source=found.places[1]),
        )
        metric = LOSS.model_copy(update={"decimals": len(texts[0].partition(".")[2]) if found.unit else 6})
    return make_row(metric, cells, arms, missing_decision(cells, arms) or decision)


class Judged(Frozen):
    """The inputs, besides its curves, for judging any value of a comparison."""

    rules: VerdictRules
    proved: bool = False  # both arms provably run the same program
    other_draws: bool = False  # the arms are known to have other random first weights or other data
    instead: str = ""  # the alternative to more runs, if only logs were given
    among: int = 1  # number of compared values, which share the chance of a false alarm


def judge_value(found: MetricParity, given: Judged) -> Decision:
    """Decide one value over all steps: like a loss if its name contains `loss`, else without a better direction."""
    if LOSS_LIKE in found.parity.metric:
        return judge_loss(found, given)
    tolerances = given.rules.tolerances
    return judge_curve(found, tolerances["step_values_of_varying_runs" if found.varies else "step_values"], given)


def judge_loss(found: MetricParity, given: Judged) -> Decision:
    """Decide the losses of all steps."""
    if found.parity.metric == "loss" and found.parity.first is None and _never_moves(found):
        value = found.sides[0][0][0]
        reason = f"the loss is {value:g} {_all(found.parity.steps)} of every run: nothing was trained"
        return Decision(verdict="unknown", reason=reason, evidence=show_runs(found.parity.runs))
    tolerances = given.rules.tolerances
    tolerance = tolerances["loss_of_other_draws" if given.other_draws else "loss"]
    if found.varies and not given.other_draws and not tolerance.relative and not tolerance.absolute:
        tolerance = tolerances["loss_of_varying_runs"]
    return judge_curve(found, tolerance, given, chance_makes=tolerances["loss_of_other_draws"])


def _never_moves(found: MetricParity) -> bool:
    values = np.concatenate([side.ravel() for side in found.sides])
    return found.parity.steps >= LEAST_STEPS and bool(np.all(values == values[0]))


def judge_values(found: Sequence[MetricParity], given: Judged) -> Decision | None:
    """Return the worst decision over several values; its reason names the values it applies to. None without values."""
    if not found:
        return None
    judged = [(item.parity, judge_value(item, given)) for item in found]
    _, worst = max(judged, key=lambda pair: ORDER.index(pair[1].verdict))
    saying = [f"{parity.metric} {decision.reason}" for parity, decision in judged if decision.verdict == worst.verdict]
    names = ", ".join(parity.metric for parity, _ in judged)
    reason = f"{worst.reason}: {names}" if worst.verdict == "same" else "; ".join(saying)
    return worst.model_copy(update={"reason": reason})


def values_row(arms: Arms, found: Sequence[MetricParity], given: Judged) -> MetricDiff | None:
    """Return one row for all deterministic values except the loss; None if the runs have none in common."""
    decision = judge_values(found, given)
    if decision is None:
        return None
    same = Measured(text=counted(len(found), "value"))
    cells = (same, same)
    for item in found:
        if first := item.parity.first:
            left, right = f"{first.metric} {first.baseline}", f"{first.metric} {first.candidate}"
            cells = (Measured(text=left, source=item.places[0]), Measured(text=right, source=item.places[1]))
            break
    return make_row(VALUES, cells, arms, decision)


def judge_curve(
    found: MetricParity, tolerance: Tolerance, given: Judged, *, chance_makes: Tolerance | None = None
) -> Decision:
    """Decide the curves of one value by the rules in docs/verdict.md.

    `chance_makes`: given for losses only, where lower is better: the largest difference that other first weights, other
    data or nondeterminism can cause.
    """
    parity, allowed = found.parity, show_threshold(tolerance, found.unit)

    def say(verdict: Verdict, reason: str, **more: Any) -> Decision:
        limit = {"threshold": tolerance.absolute, "threshold_text": allowed, "evidence": show_runs(parity.runs)}
        return Decision(verdict=verdict, reason=reason, **limit, **more)

    if not parity.steps:
        return Decision(verdict="unknown", reason="the arms have no step in common")
    if broken := _judge_broken(found):
        finite = found.finite and judge_curve(found.finite, tolerance, given, chance_makes=chance_makes)
        if finite and broken[0] == "unknown" and finite.verdict in ("regressed", "changed"):
            return finite.model_copy(update={"reason": f"{finite.reason}; {broken[1]}"})
        return say(*broken)
    if parity.first is None and not found.varies:
        several = f" of {parity.runs[0]} and {parity.runs[1]} runs" if max(parity.runs) > 1 else ""
        return say("same", f"equal to {parity.precision} {_all(parity.steps, 'common ')}{several}")
    blocks = compare_blocks(found.steps, found.sides)
    last, where = blocks[-1], _describe(found)
    # a loss that ends higher is worse; a lower one is different, but not certainly better
    word: Verdict = "regressed" if chance_makes is not None and last.difference > 0 else "changed"
    ends = f"{abs(last.difference):.4g} {'higher' if last.difference > 0 else 'lower'} in {last.steps}"
    if not found.varies and _is_within(found, tolerance):
        return say("same", f"{where}; within {show_threshold(tolerance)}: {tolerance.why}")
    known = given.proved or min(parity.runs) > 1  # the trainer is known to be deterministic, unless `found.varies`
    small = _is_one_digit(found)
    if not found.varies and (is_offset(found.sides, exact=found.exact, unit=found.unit) or (known and not small)):
        return say(word, f"{where}; {ends}")
    furthest = max(blocks, key=lambda block: abs(block.difference))
    most = inf if chance_makes is None else threshold_of(chance_makes, furthest.baseline)
    sure = not found.varies or min(parity.runs) == 1 or furthest.chance <= CHANCE / len(blocks) / given.among
    if chance_makes is not None and abs(furthest.difference) > most and sure:
        return say(word, f"{where}; {ends}: {OTHER_DRAWS} change it by at most {most:g} ({chance_makes.why})")
    if small and not found.varies:  # `find_contradictions` reports it as the finding `last-digit`
        return say("same", f"{where}, by at most one unit of the last printed digit, which rounding can explain")
    if min(parity.runs) >= LEAST_REPEATS:
        return say(*_judge_blocks(blocks, tolerance, word, where, given.among))
    asked = ask_for_more(min(parity.runs), LEAST_REPEATS, given.instead)
    if chance_makes is not None and parity.first is not None and parity.first.step == int(found.steps[0]):
        # only `maxview ingest` has this option
        way = "compare with --tolerances other-draws, or " if given.instead else ""
        reason = f"{where}: the arms may have {OTHER_DRAWS}, or the trainer may be nondeterministic; {way}{asked}"
    else:
        reason = f"{where}: {show_runs(parity.runs)} cannot distinguish this from run-to-run noise; {asked}"
    return say("unknown", reason, runs_wanted=LEAST_REPEATS)


def is_rounding(found: MetricParity) -> bool:
    """Return whether the arms differ at some steps, but nowhere by more than the rounding of printed values."""
    differs = found.parity.first is not None and not found.varies
    return differs and _is_one_digit(found) and not is_offset(found.sides, exact=found.exact, unit=found.unit)


def _is_one_digit(found: MetricParity) -> bool:
    return bool(found.unit) and (found.parity.largest_gap or 0.0) <= found.unit * (1 + ROUNDING * 1e3)


def _judge_broken(found: MetricParity) -> tuple[Verdict, str] | None:
    """Return the verdict on NaN and infinite values, and its reason; None if no run has any."""
    bad = [~np.isfinite(side) for side in found.sides]
    runs = [int(side.any(axis=1).sum()) for side in bad]
    if not any(runs):
        return None
    where = [_steps_of(found.steps, side.any(axis=0)) for side in bad]
    lost = [side.any(axis=0) for side in bad]
    alone = [bool((lost[0] & ~lost[1]).any()), bool((lost[1] & ~lost[0]).any())]  # not finite in one arm only
    if all(runs) and alone != [False, True]:
        return "unknown", f"is NaN or infinite in both arms {' and '.join(dict.fromkeys(where))}"
    side = 1 if runs[1] else 0
    of = f" in {runs[side]} of {len(found.sides[side])} runs" if len(found.sides[side]) > 1 else ""
    arm = ("the baseline", "the candidate")[side]
    return ("regressed" if side else "improved"), f"is NaN or infinite in {arm} {where[side]}{of}"


def _all(steps: int, kind: str = "") -> str:
    return f"at the one {kind}step" if steps == 1 else f"at all {steps} {kind}steps"


def _steps_of(steps: NDArray[np.int64], chosen: NDArray[np.bool_]) -> str:
    """Return the chosen steps in words."""
    found = np.flatnonzero(chosen)
    if not found.size:
        return "at no step"
    if found.size == len(steps) - found[0]:
        return f"from step {steps[found[0]]} on"
    return f"at {found.size} of {counted(len(steps), 'step')}, first at step {steps[found[0]]}"


def _judge_blocks(
    blocks: Sequence[Block], tolerance: Tolerance, word: Verdict, where: str, among: int
) -> tuple[Verdict, str]:
    """Return verdict and reason by Student's t test of the means over blocks. word: the verdict if they differ."""
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
    return "unknown", f"{sizes}: may be beyond {allowed}, and may be nothing"


def _is_within(found: MetricParity, tolerance: Tolerance) -> bool:
    """Return whether the arms' first runs differ by no more than the tolerance at every step."""
    gaps = np.abs(found.sides[1][0] - found.sides[0][0])
    limits = np.array([threshold_of(tolerance, float(value)) for value in found.sides[0][0]])
    return bool(np.all(gaps <= limits * (1 + ROUNDING)))


def _describe(found: MetricParity) -> str:
    """Return where the arms differ, as the first words of a reason."""
    parity, first = found.parity, found.parity.first
    varying = "runs of one arm differ among themselves" if found.varies else ""
    if first is None:
        return varying or "equal"
    where = f"differs first at step {first.step} ({first.baseline} and {first.candidate})"
    where += "" if parity.largest_step == first.step else f", most at step {parity.largest_step}"
    return f"{where}; {varying}" if varying else where


def _steps_cell(arm: ArmRuns) -> Measured:
    counts = [run.reading.steps.height for run in arm.runs]
    runs = f" × {len(counts)}" if len(counts) > 1 else ""
    return Measured(text=f"{counted(max(counts), 'step')}{runs}" if any(counts) else "")
