"""A judge over simulated runs: the real verdict rule on random levels."""

from collections.abc import Callable, Sequence
from math import exp

import numpy as np

from configs.verdict_rules import Tolerance
from tasks.diff.examine.circumstances import chance_of
from tasks.diff.examine.noise import Noise
from tasks.diff.judge.decide_noisy import decide_noisy
from tasks.diff.judge.effect import Sample
from tasks.records.compared_case import Decision

TPU = Noise(scale=0.004, df=10)
GPU = Noise(scale=0.014, df=6)
TOLERANCES = {  # as configs/noise.yml states them
    TPU: Tolerance(relative=0.02, least=0.005, why="as for a TPU", least_why="as for a TPU"),
    GPU: Tolerance(relative=0.03, least=0.01, why="as for a GPU", least_why="as for a GPU"),
}


class SimulatedTimes:
    """Runs with a random level: `truth` in logarithms, and noise per run by `draw`."""

    judges_time = True

    def __init__(
        self, truth: Sequence[float], draw: Callable[[], float], *, noise: Noise = TPU, dead: Sequence[int] = ()
    ) -> None:
        self.truth, self.draw, self.noise, self.dead = truth, draw, noise, dead
        self.values: dict[int, list[float]] = {}
        self.known: dict[tuple[object, ...], Decision] = {}

    def train(self, point: int) -> None:
        self.values.setdefault(point, []).append(self.truth[point] + self.draw())

    @property
    def total(self) -> int:
        return sum(map(len, self.values.values()))

    def spread(self) -> float:
        """The largest difference between runs of one point."""
        return max((float(np.ptp(values)) for values in self.values.values()), default=0.0)

    def runs(self, point: int) -> int:
        return 0 if point in self.dead else len(self.values.get(point, ()))

    def failed(self, point: int) -> str:
        return "does not compile" if point in self.dead else ""

    def are_apart(self, before: int, after: int) -> bool:
        return max(self.values[before]) < min(self.values[after])

    def compare(self, before: int, after: int, *, runs: int | None = None, shares: int = 1) -> Decision:
        sides = [tuple(exp(value) for value in self.values[point][:runs]) for point in (before, after)]
        key = (before, after, len(sides[0]), len(sides[1]), runs, shares)
        if key not in self.known:
            sample = Sample(baseline=sides[0], candidate=sides[1], noise=self.noise)
            look = runs or len(sides[0]) + len(sides[1]) - 1
            found = decide_noisy(
                sample, sample, tolerance=TOLERANCES[self.noise], chance=chance_of(cases=shares, look=look)
            )
            self.known[key] = Decision(verdict=found.verdict, reason=found.effect_text, runs_wanted=found.runs_wanted)
        return self.known[key]


def step(size: float, culprit: int, points: int = 33) -> list[float]:
    """Levels that rise by `size` at the culprit."""
    return [float(np.log1p(size)) if point >= culprit else 0.0 for point in range(points)]
