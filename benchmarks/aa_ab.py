"""Turns real step times of equal runs into what the decisions are worth: false alarms, and changes that are found.

    python -m benchmarks.aa_ab noise.parquet [--resampled 10000]

A/A: the runs as they were, in pairs and in disjoint comparisons of three pairs, through the whole of `tasks.diff`;
every window of neighbours as it was; then comparisons whose runs are drawn again out of stretches of neighbours, which
adds the noise of the drawing, to their history too. A/B: the same with a slowdown, a speed-up or a loss that was put
in. What equal runs differ by is learnt from stretches that are not judged (odd ones for even ones and the other way
round). MaxView's rule, any difference of a printed figure is green or red, is applied to the same pairs.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from math import expm1, log, sqrt
from pathlib import Path

import numpy as np
from scipy import stats  # type: ignore[import-untyped]

from benchmarks.machine import describe_machine
from benchmarks.noise_table import STRETCH, Noise, Run, draw_runs, levels_of, load_noise, make_record, priors_from
from configs.comparison import load_tolerances
from tasks.diff.arms import ArmRuns
from tasks.diff.comparison import diff
from tasks.diff.decide import Decision
from tasks.diff.decide_noisy import CHANCE, LOOKS, chance_of, decide_noisy
from tasks.diff.effect import Sample, location_variance
from tasks.diff.levels import Level, Levels
from tasks.diff.noise import NoisePrior, pair_unrest
from tasks.diff.parity import compare_metric
from tasks.diff.time_rows import QUICK, Circumstances
from tasks.diff.until import next_repeats
from tasks.records import ComparisonRecord, MetricDiff

METRICS = (
    "parameters", "final_loss", "tflops_per_device", "tokens_per_s", "avg_step_time_s", "step_time_s", "loss_per_step",
    "step_cpu_time_s",
)  # fmt: skip
DECIDED = ("improved", "regressed")
SLOWER, LITTLE = 1.05, 1.02
EFFECTS = ((3, (SLOWER, 1 / SLOWER)), (10, (LITTLE, 1 / LITTLE)))  # repeats, and what is put in
MOST_REPEATS = 12
SEED = 7
LOSS_CHANGE = 1e-3
TOLERANCES = load_tolerances("default")

type Priors = dict[str, NoisePrior]
type Pairs = list[tuple[Run, Run]]
type Decisions = dict[str, Decision]  # by metric
type Outcomes = dict[float, list[Decisions]]  # by what was put in


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("--resampled", type=int, default=10_000)
    arguments = parser.parse_args()
    noise = load_noise(arguments.table)
    if noise.runs < 2 * STRETCH:
        sys.exit(f"{arguments.table} has {noise.runs} runs: collect at least {2 * STRETCH} (noise_collect --runs)")
    print(describe_machine(("numpy", "scipy", "polars")))
    print(f"{arguments.table.name}: {noise.runs} equal runs × {noise.losses.shape[1]} steps: {', '.join(noise.clocks)}")
    halves = [(noise.side(half), priors_from(noise, noise.side(1 - half))) for half in (0, 1)]
    for judged, priors in halves:
        runs = sum(len(stretch) for stretch in judged)
        known = ", ".join(
            f"{name} {100 * p.scale:.2f} %, {p.df:.1f} degrees, × (unrest ÷ {100 * p.unrest:.1f} %)^{p.growth:.2f}"
            for name, p in priors.items()
        )
        print(f"  {runs} runs are judged with the noise of the others: {known}")
    for pairs in (1, 3):
        print_real(noise, halves, pairs)
    print_windows(noise, halves)
    rng = np.random.default_rng(SEED)
    drawn = [(judged, priors_from(noise, noise.side(1 - half), rng)) for half, (judged, _) in enumerate(halves)]
    print_resampled(noise, drawn, arguments.resampled)
    print_sequential(noise, drawn, max(200, arguments.resampled // 10))
    print_losses(noise)
    for effect, runs in ((SLOWER, 3), (LITTLE, 10)):
        light, heavy = (f"{100 * smallest_noise(log(effect), runs, mean=mean):.2f} %" for mean in (True, False))
        print(f"  {100 * (effect - 1):.0f} % by {runs} repeats at 95 % needs pairs that scatter by {light} ({heavy} "
              "where medians are taken)")  # fmt: skip


def print_real(noise: Noise, halves: Sequence[tuple[list[range], Priors]], pairs: int) -> None:
    """The runs as they were, through the whole comparison."""
    words: Counter[str] = Counter()
    theirs = false = total = 0
    for judged, priors in halves:
        for stretch in judged:
            for start in range(stretch.start, stretch.stop - 2 * pairs + 1, 2 * pairs):
                record = compare(noise, range(start, start + 2 * pairs), priors)
                rows = {row.metric: row for row in record.rows}
                words[", ".join(rows[clock].verdict for clock in noise.clocks)] += 1
                judged_rows = [rows[metric] for metric in METRICS if metric in rows]
                false += any(row.verdict in DECIDED for row in judged_rows)
                theirs += any(is_coloured(row) for row in judged_rows)
                total += 1
    print(f"A/A, real runs in order, {pairs} of each, {total} comparisons with {len(judged_rows)} metrics:")
    print(f"  different: {share(false, total)} (target ≤ 1 %); MaxView's rule: {share(theirs, total)}; {dict(words)}")


def compare(noise: Noise, runs: range, priors: Priors) -> ComparisonRecord:
    """Every other run against the others."""
    sides = [[make_record(arm, noise, run) for run in runs[offset::2]] for offset, arm in enumerate(("a", "b"))]
    return diff(
        sides[0], sides[1], comparison="aa", case="01_base", target="cpu", question="Same?", aa=True,
        tolerances=load_tolerances("default"), given=Circumstances(priors=priors),
    )  # fmt: skip


def is_coloured(row: MetricDiff) -> bool:
    """Whether MaxView would show the row in green or red: the figures differ as printed."""
    return row.group == "maxview" and row.difference_text not in ("0", "—")


def print_windows(noise: Noise, halves: Sequence[tuple[list[range], Priors]]) -> None:
    """Every window of neighbours, as they were. Windows overlap: so many decisions, but far fewer independent ones."""
    for repeats, factors in EFFECTS:
        outcomes: Outcomes = {factor: [] for factor in (1.0, *factors)}
        apart = 0
        for judged, priors in halves:
            for stretch in judged:
                levels = [levels_of(noise, run) for run in stretch]
                apart += len(levels) // (2 * repeats)
                for start in range(len(levels) - 2 * repeats + 1):
                    runs = levels[start : start + 2 * repeats]
                    pairs = list(zip(runs[0::2], runs[1::2], strict=True))
                    for factor, found in outcomes.items():
                        found.append(decide(pairs, priors, factor))
        print(f"every window, {repeats} of each, {len(outcomes[1.0])} of which {apart} apart:")
        print_outcomes(outcomes, repeats, noise)


def print_resampled(noise: Noise, halves: Sequence[tuple[list[range], Priors]], count: int) -> None:
    """Drawn comparisons: false alarms, what is found of an injected change, and whether intervals hold the truth."""
    for (repeats, factors), number in zip(EFFECTS, (count, count // 4), strict=True):
        outcomes: Outcomes = {factor: [] for factor in (1.0, *factors)}
        for pairs, priors in draw(noise, halves, repeats, number):
            for factor, found in outcomes.items():
                found.append(decide(pairs, priors, factor))
        print(f"{number} resampled comparisons, {repeats} of each × {noise.losses.shape[1]} steps:")
        print_outcomes(outcomes, repeats, noise)


def print_outcomes(outcomes: Outcomes, repeats: int, noise: Noise) -> None:
    """What was decided with and without a change that was put in."""
    for factor, found in outcomes.items():
        number = len(found)
        target = "≤ 1 %" if factor == 1 else "≥ 95 %" if repeats == 3 else "≥ 80 %"
        right = "regressed" if factor > 1 else "improved"
        name = "no change: different" if factor == 1 else f"{100 * (factor - 1):+.1f} %: {right}"
        words = Counter(word_of(decisions) for decisions in found)
        different = sum(is_found(decisions, DECIDED if factor == 1 else (right,)) for decisions in found)
        print(f"  {name} {share(different, number)} (target {target}); same {share(words['same'], number)}, "
              f"unknown {share(words['unknown'], number)}")  # fmt: skip
        for metric in noise.clocks:
            alone: Counter[str] = Counter(decisions[metric].verdict for decisions in found)
            different = sum(alone[word] for word in DECIDED) if factor == 1 else alone[right]
            holds = sum(is_covered(decisions[metric], factor) for decisions in found)
            print(f"      {metric}: {share(different, number)}, same {share(alone['same'], number)}; "
                  f"95 % intervals hold the truth {share(holds, number)}")  # fmt: skip


def is_found(decisions: Decisions, right: Sequence[str]) -> bool:
    """Whether a row says one of these words, and none the other."""
    words = {decision.verdict for decision in decisions.values()} & set(DECIDED)
    return bool(words) and words <= set(right)


def word_of(decisions: Decisions) -> str:
    """What the comparison says as a whole, as far as these metrics go: the worst of their words."""
    words = {decision.verdict for decision in decisions.values()}
    return next(word for word in ("regressed", "unknown", "improved", "same") if word in words)


def draw(
    noise: Noise, halves: Sequence[tuple[list[range], Priors]], repeats: int, count: int
) -> Iterator[tuple[Pairs, Priors]]:
    """Resampled comparisons out of both halves, with the noise of the half that they are not from."""
    rng = np.random.default_rng(SEED)
    for index in range(count):
        judged, priors = halves[index % 2]
        runs = list(draw_runs(noise, judged, 2 * repeats, rng))
        yield list(zip(runs[0::2], runs[1::2], strict=True)), priors


def decide(pairs: Pairs, priors: Priors, factor: float = 1.0, *, look: int | None = None) -> Decisions:
    """The decisions about these pairs, the candidate's steps being `factor` times as long."""
    metrics = list(pairs[0][0])

    def sample(metric: str, level: Callable[[Levels], Level], key: str) -> Sample:
        sides = [[level(pair[side][metric]) for pair in pairs] for side in (0, 1)]
        error = sqrt(float(np.mean([found.error**2 for side in sides for found in side])))
        baseline, candidate = (tuple(found.seconds for found in side) for side in sides)
        return Sample(
            baseline=baseline,
            candidate=tuple(factor * seconds for seconds in candidate),
            unrest=tuple(pair_unrest(*(run[metric].unrest for run in pair)) for pair in pairs),
            error=error,
            prior=priors.get(key),
        )

    return {
        metric: decide_noisy(
            sample(metric, lambda levels: levels.quick, QUICK[metric]),
            sample(metric, lambda levels: levels.middle, metric),
            better="lower", tolerance=TOLERANCES[metric], same_program=False,
            chance=chance_of(look=look) / len(metrics),
        )
        for metric in metrics
    }  # fmt: skip


def is_covered(decision: Decision, factor: float) -> bool:
    """Whether the shown interval holds the difference that there is."""
    low, high = decision.effect_low, decision.effect_high
    return low is not None and high is not None and low <= factor - 1 <= high


def print_sequential(noise: Noise, halves: Sequence[tuple[list[range], Priors]], count: int) -> None:
    """`--until-decided`: looks at more and more repeats, each with its share of the chance."""
    print(f"until decided, from 3 to at most {MOST_REPEATS} of each, {count} resampled comparisons:")
    outcomes: dict[float, list[tuple[str, int]]] = {1.0: [], SLOWER: [], LITTLE: []}
    for pairs, priors in draw(noise, halves, MOST_REPEATS, count):
        for factor, ends in outcomes.items():
            ends.append(go_on(pairs, priors, factor))
    for factor, ends in outcomes.items():
        words = Counter(word for word, _ in ends)
        shares = ", ".join(f"{word} {share(number, count)}" for word, number in sorted(words.items()))
        mean = float(np.mean([runs for _, runs in ends]))
        print(f"  {100 * (factor - 1):+.0f} %: {shares}; {mean:.1f} runs of each on average")


def go_on(pairs: Pairs, priors: Priors, factor: float) -> tuple[str, int]:
    """The verdict and the repeats with which it came."""
    repeats, look = 3, 1
    while True:
        decisions = decide(pairs[:repeats], priors, factor, look=look)
        open_ones = [decision for decision in decisions.values() if decision.verdict == "unknown"]
        if not open_ones or repeats >= MOST_REPEATS:
            return word_of(decisions), repeats
        wanted = max((found.runs_wanted for found in open_ones if found.runs_wanted is not None), default=None)
        repeats = next_repeats(repeats, wanted, most=MOST_REPEATS)
        look += 1


def print_losses(noise: Noise) -> None:
    """A loss that is changed from step k on, for every k of several runs: is k the step that is named?"""
    found = Counter[str]()
    steps = noise.losses.shape[1]
    runs = range(0, noise.runs, max(1, noise.runs // 10))
    for run in runs:
        for step in range(steps):
            changed = noise.losses[run] + LOSS_CHANGE * (np.arange(steps) >= step)
            for name, exact in (("printed with 3 decimals", False), ("JSON lines", True)):
                records = [
                    make_record(arm, noise, run, losses=losses, exact=exact)
                    for arm, losses in (("a", noise.losses[run]), ("b", changed))
                ]
                arms = tuple(ArmRuns(name=record.arm, label=record.arm, runs=(record,)) for record in records)
                first = compare_metric((arms[0], arms[1])).parity.first
                found[name] += first is not None and first.step == step
    total = len(runs) * steps
    for name, number in found.items():
        print(f"loss + {LOSS_CHANGE:g} from step k on, {name}: found at k {number} of {total} times (target: always)")


def smallest_noise(effect: float, runs: int, *, mean: bool) -> float:
    """The scatter of pairs up to which one clock finds an effect 95 times in 100, if that scatter is well known."""
    lucky = float(stats.norm.isf(CHANCE / LOOKS / 2) + stats.norm.ppf(0.95))
    return expm1(effect / lucky / sqrt(location_variance(runs, mean=mean)))


def share(number: int, total: int) -> str:
    """`1.2 %` and its kind."""
    return f"{100 * number / total:.1f} %" if total else "–"


if __name__ == "__main__":
    main()
