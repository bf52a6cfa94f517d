"""Decides the verdict on a time, which differs between equal runs, from two levels of each run of both arms.

An arm is one side of a comparison of runs. A level is the time of a run's steady steps (10 % quantile) or
typical steps. docs/step-times-of-runs.md explains the rule.
"""

from math import expm1, hypot, inf, log1p, sqrt

from configs.frozen import Frozen
from configs.verdict_rules import Tolerance
from tasks.diff.examine.circumstances import CHANCE
from tasks.diff.examine.noise import MIN_PAIRS
from tasks.diff.judge.decide import show_threshold, threshold_of
from tasks.diff.judge.effect import MAX_RUNS, Effect, Sample, are_mixed, measure_effect, runs_wanted
from tasks.diff.phrases.amounts import ONE_PROGRAM, ONE_RUN, show_duration
from tasks.records.compared_case import Decision, Verdict
from tasks.records.text import counted, show_estimate, show_interval

MAX_SHOWN = 50.0  # logarithm of the largest ratio shown; prevents an overflow
WIDEST_SHOWN = 10.0  # an interval wider than this (1000 %) is shown as "anything"
RAREST = 1000  # largest N in "1 time in N": rarer events depend on the tail of the assumed distribution
# How the two tests share the chance. Steady steps get more because they vary least in equal runs and show most
# differences.
SHARES = {"steady steps": 2 / 3, "typical steps": 1 / 3}

MIXED_RUNS = ", because runs of one arm lie among those of the other"
SOONER = (
    "; or --until-decided, which stops earlier if the runs scatter less than the stated noise; a history of "
    f"{MIN_PAIRS} pairs of equal runs replaces the stated noise"
)


NO_USE = "more runs of these two cannot help"  # in place of an alternative, if a finding blocks the verdict


class Cost(Frozen):
    """The cost of one more run of each arm."""

    seconds: float  # of both runs together
    chips: int | None = None  # number of chips of the target; None if it has none
    price: float | None = None  # US dollars per chip and hour


class Remedy(Frozen):
    """The ways to get more evidence, which an *unknown* suggests: further runs with their cost, or an alternative."""

    cost: Cost | None = None  # None if unknown
    instead: str = ""  # the alternative if only logs were given, whose runs cannot be repeated; else empty


def decide_noisy(
    quick: Sample,
    middle: Sample,
    *,
    tolerance: Tolerance,
    excuse: str = "",
    remedy: Remedy | None = None,
    chance: float = CHANCE,
) -> Decision:
    """Decide a time from the levels of the steady steps (`quick`) and of the typical steps (`middle`) of every run.

    excuse: what makes both arms equal, e.g. program and host code, so that a difference within the noise of equal runs
    is noise; else empty. It never hides a larger difference. chance: see `chance_of`.
    """
    effects = {"steady steps": measure_effect(quick), "typical steps": measure_effect(middle)}
    base = sum(middle.baseline) / len(middle.baseline)
    within, least = _limits(tolerance, base)
    significant = {
        name: effect
        for name, effect in effects.items()
        if abs(effect.estimate) >= least and effect.p <= chance * SHARES[name]
    }
    beyond = {name: effect for name, effect in significant.items() if not are_mixed(effect)}
    used, allowed, share = effects["steady steps"], show_threshold(tolerance), expm1(within)
    shown, wanted, cost = show_effect(used, share), None, ""
    # the level that can prevent the verdict *same*: the steady steps, or the typical steps if the steady ones agree
    # as logarithms: which arm is the baseline does not matter
    name = "steady steps" if max(abs(end) for end in used.interval()) > within else "typical steps"
    verdict: Verdict
    judged = "steady steps"  # the level whose effect the row shows
    if beyond:
        judged, used = max(beyond.items(), key=lambda item: item[1].estimate)
        verdict = "regressed" if used.estimate > 0 else "improved"
        chance_text = f", {show_chance(used.p)}" if used.sample.noise.pairs else ""
        reason = f"{judged} {show_effect(used)}{chance_text}; {_describe_noise(used)}"
    elif excuse:
        verdict, reason = "same", f"noise by construction: {excuse}; measured {shown}"
    elif name == "typical steps" and abs(effects[name].estimate) <= within:
        verdict, reason = "same", f"steady steps {shown}, inside {allowed} ({tolerance.why}); {_describe_noise(used)}"
    else:
        verdict, remedy = "unknown", remedy or Remedy()
        also = "" if name == "steady steps" else f", {name} {show_effect(effects[name], share)}"
        wanted = runs_wanted(effects[name], least=least, within=within, chance=chance * SHARES[name])
        wanted = None if remedy.instead == NO_USE else wanted
        cost = show_cost(remedy.cost, wanted - min(used.runs)) if wanted and remedy.cost else ""
        asked = ask_for_more(min(used.runs), wanted, remedy.instead, cost)
        sooner = "" if used.sample.noise.pairs or remedy.instead or not wanted else SOONER
        mixed = MIXED_RUNS if significant else ""
        reason = f"steady steps {shown}{also}: too wide to tell {allowed} from none{mixed}; {asked}{sooner}"
    low, high = _ends(used)
    return Decision(
        verdict=verdict,
        reason=reason,
        threshold=threshold_of(tolerance, base),
        threshold_text=allowed,
        effect=expm1(used.estimate),
        effect_low=low,
        effect_high=high,
        effect_text=show_effect(used, share),
        effect_short=show_estimate_of(used, share),
        level=judged,
        evidence=ONE_PROGRAM if excuse and verdict == "same" else show_runs(used.runs),
        p_value=used.p,
        runs_wanted=wanted,
        cost_text=cost,
    )


def _limits(tolerance: Tolerance, base: float) -> tuple[float, float]:
    """Return the tolerance and the least effect, as logarithms of ratios. base: the baseline's mean level (seconds)."""
    scale = 1.0 if tolerance.relative is not None else 1.0 / base
    size = tolerance.relative if tolerance.relative is not None else tolerance.absolute
    return log1p((size or 0.0) * scale), log1p((tolerance.least or 0.0) * scale)


def _describe_noise(effect: Effect) -> str:
    """Return the noise, its source and the number of runs, in words."""
    noise, apart = effect.sample.noise, effect.sample.apart
    source = f"by {noise.pairs} pairs of the {noise.source}" if noise.pairs else f"as stated: {noise.source}"
    if effect.wide:
        source = "estimated from these runs"
    also = f", and {apart}" if apart else ""
    by = ", by the stated noise of this kind of device" if effect.runs == (1, 1) and not noise.pairs else ""
    size = hypot(effect.scale, sqrt(2) * effect.sample.error if effect.runs == (1, 1) else 0.0)
    return f"equal runs differ by {100 * size:.2g} % ({source}){also}; {show_runs(effect.runs)}{by}"


def show_runs(runs: tuple[int, int]) -> str:
    """Return the number of runs in words, e.g. `3 runs of each`."""
    if runs[0] != runs[1]:
        return f"{runs[0]} and {runs[1]} runs"
    return ONE_RUN if runs[0] == 1 else f"{runs[0]} runs of each"


def show_effect(effect: Effect, limit: float = inf) -> str:
    """Return the effect with its interval, e.g. `-6.6 % (-9.1 … -4.0)`, or `-6.6 % (anything)` if it is too wide.

    limit: the tolerance as a share; no number beyond it is rounded to it.
    """
    low, high = _ends(effect)
    if high - low > WIDEST_SHOWN:
        return f"{100 * expm1(effect.estimate):+.1f} % (anything)"
    return show_interval(expm1(effect.estimate), low, high, limit)


def show_estimate_of(effect: Effect, limit: float = inf) -> str:
    """Return the effect without its interval."""
    low, high = _ends(effect)
    if high - low > WIDEST_SHOWN:
        return f"{100 * expm1(effect.estimate):+.1f} %"
    return show_estimate(expm1(effect.estimate), low, high, limit)


def _ends(effect: Effect) -> tuple[float, float]:
    low, high = (expm1(max(-MAX_SHOWN, min(MAX_SHOWN, end))) for end in effect.interval())
    return low, high


def show_chance(p: float) -> str:
    """Return a p-value in words, e.g. `by chance 1 time in 40`. Stated noise is too rough for this."""
    return f"by chance 1 time in {1 / p:.0f}" if p > 1 / RAREST else f"by chance less than 1 time in {RAREST}"


def show_cost(cost: Cost, runs: int) -> str:
    """Return the cost of `runs` more runs of each arm: time, and if the target has chips, chip-hours and price."""
    text = f"about {show_duration(runs * cost.seconds)}"
    if cost.chips is None:
        return text
    hours = runs * cost.seconds * cost.chips / 3600
    price = "" if cost.price is None else f", {hours * cost.price:.2f} dollars"
    return f"{text} × {cost.chips} chips = {hours:.1f} chip-hours{price}"


def ask_for_more(repeats: int, wanted: int | None, instead: str, cost: str = "") -> str:
    """Return the request for more than the present `repeats` runs per arm. wanted: None means more than MAX_RUNS."""
    if instead == NO_USE:
        return NO_USE
    if wanted is None:
        return f"more than {MAX_RUNS} runs per arm would be needed; reduce the noise first"
    asked = f"run each arm {counted(wanted - repeats, 'more time')}"
    if instead:
        return f"{asked}{f' ({cost})' if cost else ''}, or {instead}"
    return f"{asked} (--repeats {wanted}{f', {cost}' if cost else ''})"
