"""The decision rule for metrics with noise: what the levels of two arms' runs say. In prose: docs/verdict.md."""

from math import expm1, log1p

from configs.comparison import Tolerance
from configs.schema import Frozen
from tasks.diff.decide import ONE_RUN, show_duration, show_threshold, threshold_of
from tasks.diff.effect import MOST_RUNS, Effect, Sample, measure_effect, runs_wanted
from tasks.records import Better, Decision, Verdict

CHANCE = 0.01  # of a false "different" in a whole comparison: all of its cases, all times that it is looked at
MOST_SHOWN = 50.0  # of a logarithm, for a number that can be written down
WIDEST_SHOWN = 10.0  # an interval of more than 1000 % says nothing
# of the chance: the quick steps of equal runs agree best, and find what the middle ones find in most cases
SHARES = {"quick steps": 2 / 3, "middle steps": 1 / 3}


class Cost(Frozen):
    """What one more run of each arm takes."""

    seconds: float
    chips: int | None = None  # of the target, where they are what is paid for
    price: float | None = None  # of one chip for an hour, in US dollars


class Remedy(Frozen):
    """How to get more evidence: what more runs of each arm cost, and what else there is to do."""

    cost: Cost | None = None
    instead: str = ""  # of runs that nobody can ask for because only their logs are there


def chance_of(*, cases: int = 1, look: int | None = None) -> float:
    """The share of CHANCE that one decision may take.

    Bonferroni over the cases, and over the looks at a comparison that goes on until it is decided: the k-th look gets
    1 / (k (k + 1)) of it, which adds up to 1 however often one looks.
    """
    spent = 1.0 if look is None else 1.0 / (look * (look + 1))
    return CHANCE * spent / cases


def decide_noisy(
    quick: Sample,
    middle: Sample,
    *,
    better: Better,
    tolerance: Tolerance,
    excuse: str = "",
    remedy: Remedy | None = None,
    chance: float = CHANCE,
) -> Decision:
    """A metric with noise, by the quick and the middle steps of every run; `chance`: see `chance_of`.

    `excuse` says why any difference is noise: the arms run the same program from the same host code.
    """
    effects = {"quick steps": measure_effect(quick), "middle steps": measure_effect(middle)}
    base = sum(middle.baseline) / len(middle.baseline)
    within, least = _limits(tolerance, base)
    beyond = {
        name: effect
        for name, effect in effects.items()
        if abs(effect.estimate) >= least and effect.p <= chance * SHARES[name]
    }
    used, allowed = effects["quick steps"], show_threshold(tolerance)
    shown = show_effect(used)
    remedy = remedy or Remedy()
    wanted: int | None = None
    verdict: Verdict
    if excuse:
        verdict, reason = "same", f"{excuse}: the measured {shown} is noise by construction"
    elif beyond:
        name, used = max(beyond.items(), key=lambda item: _badness(item[1], better))
        verdict = "regressed" if _badness(used, better) > 0 else "improved"
        reason = f"{name} {show_effect(used)}, {show_chance(used.p)}; {_basis(used)}"
    elif _is_inside(effects, within):
        verdict, reason = "same", f"quick steps {shown}, inside {allowed} ({tolerance.why}); {_basis(used)}"
    else:
        verdict = "unknown"
        name, unsure = _least_sure(effects, within)
        also = "" if name == "quick steps" else f", {name} {show_effect(unsure)}"
        wanted = runs_wanted(unsure, least=least, within=within, chance=chance * SHARES[name])
        asked = ask_for_more(min(used.runs), wanted, remedy)
        reason = f"quick steps {shown}{also}: neither inside {allowed} nor surely different; {asked}"
    low, high = _ends(used)
    return Decision(
        verdict=verdict,
        reason=reason,
        threshold=threshold_of(tolerance, base),
        threshold_text=allowed,
        effect=expm1(used.estimate),
        effect_low=low,
        effect_high=high,
        effect_text=show_effect(used),
        evidence=show_runs(used.runs),
        p_value=used.p,
        runs_wanted=wanted,
        cost_text="" if wanted is None or remedy.cost is None else show_cost(remedy.cost, wanted - min(used.runs)),
    )


def _limits(tolerance: Tolerance, base: float) -> tuple[float, float]:
    """(tolerance, least effect) as logarithms of the ratio."""
    scale = 1.0 if tolerance.relative is not None else 1.0 / base
    size = tolerance.relative if tolerance.relative is not None else tolerance.absolute
    return log1p((size or 0.0) * scale), log1p((tolerance.least or 0.0) * scale)


def _badness(effect: Effect, better: Better) -> float:
    """How much worse the candidate is."""
    return -effect.estimate if better == "higher" else effect.estimate


def _is_inside(effects: dict[str, Effect], within: float) -> bool:
    """Whether the quick steps surely, and the middle steps probably, differ by no more than the tolerance."""
    ends = effects["quick steps"].interval()
    return max(abs(end) for end in ends) <= within and abs(effects["middle steps"].estimate) <= within


def _least_sure(effects: dict[str, Effect], within: float) -> tuple[str, Effect]:
    """What keeps the decision open: the quick steps while their interval is too wide, else the middle steps."""
    quick = effects["quick steps"]
    name = "quick steps" if max(abs(end) for end in quick.interval()) > within else "middle steps"
    return name, effects[name]


def _basis(effect: Effect) -> str:
    """How many runs it rests on, and what the noise was learnt from."""
    noise = effect.noise
    source = f"by {noise.pairs} pairs of the {noise.source}" if noise.pairs else f"as stated: {noise.source}"
    days = ", and the arms ran at other times" if effect.days_apart else ""
    return f"{show_runs(effect.runs)}; equal runs differ by {100 * effect.scale:.2g} % ({source}){days}"


def show_runs(runs: tuple[int, int]) -> str:
    """How much evidence a word rests on."""
    if runs[0] != runs[1]:
        return f"{runs[0]} and {runs[1]} runs"
    return ONE_RUN if runs[0] == 1 else f"{runs[0]} runs of each"


def show_effect(effect: Effect) -> str:
    """The effect with its interval as people read it."""
    return show_interval(expm1(effect.estimate), *_ends(effect))


def _ends(effect: Effect) -> tuple[float, float]:
    low, high = (expm1(max(-MOST_SHOWN, min(MOST_SHOWN, end))) for end in effect.interval())
    return low, high


def show_interval(middle: float, low: float, high: float) -> str:
    """`-6.6 % (-9.1 … -4.0)` and its kind."""
    if high - low > WIDEST_SHOWN:
        return f"{100 * middle:+.1f} % (anything)"
    return f"{100 * middle:+.1f} % ({100 * low:+.1f} … {100 * high:+.1f})"


def show_chance(p: float) -> str:
    """How rare a difference is that is none."""
    return f"by chance 1 time in {1 / p:.0f}" if p > 1e-6 else "by chance less than 1 time in a million"


def show_cost(cost: Cost, runs: int) -> str:
    """What so many more runs of each arm take: time, and chip-hours with their price where a target names them."""
    text = f"about {show_duration(runs * cost.seconds)}"
    if cost.chips is None:
        return text
    hours = runs * cost.seconds * cost.chips / 3600
    price = "" if cost.price is None else f", {hours * cost.price:.2f} dollars"
    return f"{text} × {cost.chips} chips = {hours:.1f} chip-hours{price}"


def ask_for_more(repeats: int, wanted: int | None, remedy: Remedy) -> str:
    """How many runs more, how to ask for them, and what they cost."""
    if wanted is None:
        return f"more than {MOST_RUNS} runs of each would be needed: the noise must become less"
    more = wanted - repeats
    price = show_cost(remedy.cost, more) if remedy.cost else ""
    if remedy.instead:
        return f"run {more} more of each{f' ({price})' if price else ''}, or {remedy.instead}"
    return f"run {more} more of each (--repeats {wanted}{f', {price}' if price else ''})"
