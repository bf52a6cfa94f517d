"""The decision rule for metrics with noise: what the levels of repeated runs say. In prose: docs/verdict.md."""

from math import expm1, log, log1p
from statistics import median

from configs.comparison import Tolerance
from configs.schema import Frozen
from tasks.diff.decide import LEAST_REPEATS, Decision, show_duration, show_threshold, threshold_of
from tasks.diff.effect import MOST_RUNS, Effect, Sample, measure_effect, runs_wanted
from tasks.records import Better, Verdict

CHANCE = 0.01  # of a false "different" in a whole comparison: all of its cases, all times that it is looked at
MOST_SHOWN = 50.0  # of a logarithm, for a number that can be written down
WIDEST_SHOWN = 10.0  # an interval of more than 1000 % says nothing
UNSTEADY = 1.5  # times the usual noise, from where on it is told
LOOKS = 2  # at one measurement: its quick and its middle steps


class Cost(Frozen):
    """What one more run of each arm takes."""

    seconds: float
    chips: int | None = None  # of the target, where they are what is paid for
    price: float | None = None  # of one chip for an hour, in US dollars


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
    same_program: bool,
    cost: Cost | None = None,
    chance: float = CHANCE,
    remedy: str = "",
) -> Decision:
    """A metric with noise, by the quick and the middle steps of every run.

    `chance`: see `chance_of`; `remedy`: see `ask_for_more`.
    """
    base = median(middle.baseline)
    difference = median(middle.candidate) - base
    effects = {"quick steps": measure_effect(quick), "middle steps": measure_effect(middle)}
    known = {name: effect for name, effect in effects.items() if effect is not None}
    repeats = min(len(quick.baseline), len(quick.candidate))
    within, least = _limits(tolerance, base)
    beyond = {
        name: effect for name, effect in known.items() if abs(effect.estimate) >= least and effect.p <= chance / LOOKS
    }
    shown = show_effect(known["quick steps"]) if "quick steps" in known else f"{100 * difference / base:+.1f} %"
    allowed = show_threshold(tolerance)
    wanted: int | None = None
    used = known.get("quick steps")
    verdict: Verdict
    if same_program:
        verdict = "same"
        reason = f"both arms run the same compiled program: the measured {shown} is noise by construction"
    elif not known or (repeats < LEAST_REPEATS and all(effect.prior is None for effect in known.values())):
        verdict, wanted, used = "unknown", LEAST_REPEATS, None
        reason = (
            f"{100 * difference / base:+.1f} % from {repeats} run{'s' if repeats > 1 else ''} per arm: "
            f"run-to-run noise is not known; {ask_for_more(repeats, wanted, cost, remedy)}"
        )
    elif beyond and repeats >= LEAST_REPEATS:
        name, used = max(beyond.items(), key=lambda item: _badness(item[1], better))
        verdict = "regressed" if _badness(used, better) > 0 else "improved"
        reason = f"{name} {show_effect(used)}, {show_chance(used.p)}; {_basis(used)}"
    elif beyond:
        # a machine that goes from one state to another between two runs makes such a pair too (docs/decisions/0005)
        name, used = max(beyond.items(), key=lambda item: _badness(item[1], better))
        verdict, wanted = "unknown", LEAST_REPEATS
        reason = (
            f"{name} {show_effect(used)}, more than equal runs have differed by; {repeats} of each cannot "
            f"tell whether the machine changed between them; {ask_for_more(repeats, wanted, cost, remedy)}"
        )
    elif _is_inside(effects, middle, within):
        verdict = "same"
        reason = f"quick steps {shown}, inside {allowed} ({tolerance.why}); {_basis(used)}"
    else:
        verdict = "unknown"
        open_name, unsure = _least_sure(known, within)
        used = used or unsure
        wanted = runs_wanted(unsure, least=least, within=within, chance=chance / LOOKS)
        wanted = None if wanted is None else max(wanted, LEAST_REPEATS, repeats + 1)
        also = "" if open_name == "quick steps" else f", {open_name} {show_effect(unsure)}"
        asked = ask_for_more(repeats, wanted, cost, remedy)
        reason = f"quick steps {shown}{also}: neither inside {allowed} nor surely different; {asked}"
    return Decision(
        verdict=verdict,
        reason=reason,
        threshold=threshold_of(tolerance, base),
        threshold_text=allowed,
        difference=difference,
        effect=None if used is None else expm1(used.estimate),
        effect_low=None if used is None else _ends(used)[0],
        effect_high=None if used is None else _ends(used)[1],
        effect_text="" if used is None else show_effect(used),
        p_value=None if used is None else used.p,
        runs_wanted=wanted,
        cost_text="" if wanted is None or cost is None else show_cost(cost, wanted - repeats),
    )


def _limits(tolerance: Tolerance, base: float) -> tuple[float, float]:
    """(tolerance, least effect) as logarithms of the ratio."""
    scale = 1.0 if tolerance.relative is not None else 1.0 / base
    size = tolerance.relative if tolerance.relative is not None else tolerance.absolute
    return log1p((size or 0.0) * scale), log1p((tolerance.least or 0.0) * scale)


def _badness(effect: Effect, better: Better) -> float:
    """How much worse the candidate is."""
    return -effect.estimate if better == "higher" else effect.estimate


def _is_inside(effects: dict[str, Effect | None], middle: Sample, within: float) -> bool:
    """Whether the quick steps surely, and the middle steps probably, differ by no more than the tolerance."""
    quick = effects["quick steps"]
    shift = log(median(middle.candidate) / median(middle.baseline))
    other = effects["middle steps"]
    shift = shift if other is None else other.estimate
    return quick is not None and max(abs(end) for end in quick.interval()) <= within and abs(shift) <= within


def _least_sure(known: dict[str, Effect], within: float) -> tuple[str, Effect]:
    """What keeps the decision open: the quick steps while their interval is too wide, else the middle steps."""
    quick = known.get("quick steps")
    if quick is not None and max(abs(end) for end in quick.interval()) > within:
        return "quick steps", quick
    return next(((n, e) for n, e in known.items() if n != "quick steps"), next(iter(known.items())))


def _basis(effect: Effect | None) -> str:
    """What the noise was learnt from."""
    if effect is None:
        return ""
    prior = effect.prior
    runs = f"{effect.pairs} pair{'s' if effect.pairs > 1 else ''} of runs"
    noise = f"equal runs differ by {100 * effect.scale:.1f} %"
    if effect.unsteady >= UNSTEADY:
        noise += f", {effect.unsteady:.1f} times the usual, for the steps are unsteady"
    return f"{runs}, {noise}" + (f" (with {prior.pairs} pairs of the {prior.source})" if prior is not None else "")


def invert_effect(decision: Decision) -> Decision:
    """The decision about time as one about speed: so much more time is so much less speed."""
    if decision.effect is None or decision.effect_low is None or decision.effect_high is None:
        return decision
    middle, low, high = (1 / (1 + end) - 1 for end in (decision.effect, decision.effect_high, decision.effect_low))
    words = show_interval(middle, low, high)
    return decision.model_copy(update={"effect": middle, "effect_low": low, "effect_high": high, "effect_text": words})


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


def ask_for_more(repeats: int, wanted: int | None, cost: Cost | None, remedy: str = "") -> str:
    """How many runs more, how to ask for them, and what they cost.

    `remedy`: what else there is to do, of runs that nobody can ask for because only their logs are there.
    """
    if wanted is None:
        return f"more than {MOST_RUNS} runs of each would be needed: the noise must become less"
    more = wanted - repeats
    if remedy:
        return f"run {more} more of each{f' ({show_cost(cost, more)})' if cost else ''}, or {remedy}"
    price = f", {show_cost(cost, more)}" if cost else ""
    return f"run {more} more of each (--repeats {wanted}{price})"
