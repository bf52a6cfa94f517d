"""Prints how often change points are false, and how often true ones are found, over many made-up series.

python -m benchmarks.history_change_points [--series 200]
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tasks.history.change_points import find_trend

type Array = NDArray[np.float64]


def make_noise(kind: str, nights: int, rng: np.random.Generator) -> Array:
    """Noise of mean 0 and variance 1: normal, heavy-tailed, skewed, or with a memory from night to night."""
    if kind == "normal":
        return rng.normal(0, 1, nights)
    if kind == "heavy tails (t, 3)":
        return rng.standard_t(3, nights) / np.sqrt(3)
    if kind == "skewed (lognormal 0.8)":
        drawn = rng.lognormal(0, 0.8, nights)
        return np.asarray((drawn - np.exp(0.32)) / np.sqrt((np.exp(0.64) - 1) * np.exp(0.64)))
    memory = float(kind.removeprefix("memory "))
    draws = rng.normal(0, 1, nights)
    series = draws.copy()
    for i in range(1, nights):
        series[i] = memory * series[i - 1] + np.sqrt(1 - memory**2) * draws[i]
    return series


def maker(kind: str, nights: int, shape: ArrayLike = 0.0) -> Callable[[np.random.Generator], Array]:
    """A function that makes a level of 100 with noise of a kind and a shape on top."""
    return lambda rng: 100 + make_noise(kind, nights, rng) + np.asarray(shape)


def finds_step(place: int) -> Callable[[Array], bool]:
    """Whether a change is found within one night of a place."""
    return lambda s: any(abs(c.index - place) <= 1 for c in find_trend(s.tolist()).changes)


def share(series: int, make: Callable[[np.random.Generator], Array], found: Callable[[Array], bool]) -> float:
    """The share of made-up series in which something is found; seeds 0, 1, 2, …"""
    return sum(found(make(np.random.default_rng(seed))) for seed in range(series)) / series


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--series", type=int, default=200)
    count = parser.parse_args().series
    started = time.perf_counter()
    print(f"numpy {np.__version__}, {count} series each; noise has a standard deviation of 1\n")
    print("false alarms, share of series with any change point")
    kinds = ("normal", "heavy tails (t, 3)", "skewed (lognormal 0.8)", "memory 0.3", "memory 0.6")
    for kind in kinds:
        shown = ""
        for n in (10, 30, 100):
            rate = share(count, maker(kind, n), lambda s: bool(find_trend(s.tolist()).changes))
            shown += f"  {n} nights {100 * rate:5.1f} %"
        print(f"  {kind:24}{shown}")
    print("\ndetection, share of steps found within one night of their place (normal noise)")
    for nights, place in ((12, 6), (30, 15), (30, 27), (100, 50), (100, 97)):
        after = np.arange(nights) >= place
        rates = [share(count, maker("normal", nights, size * after), finds_step(place)) for size in (2, 3, 5)]
        shown = "".join(f"  {size} sd {100 * r:5.1f} %" for size, r in zip((2, 3, 5), rates, strict=True))
        print(f"  {nights:3} nights, step at {place:3}{shown}")
    slope = share(count, maker("normal", 60, 0.3 * np.arange(60)), lambda s: find_trend(s.tolist()).drift is not None)
    off = share(
        count, maker("normal", 40, 40.0 * (np.arange(40) == 17)), lambda s: bool(find_trend(s.tolist()).changes)
    )
    print(f"\na slope of 0.3 sd a night told as drift: {100 * slope:.1f} %")
    print(f"one night off taken for a change: {100 * off:.1f} %")
    print(f"{time.perf_counter() - started:.0f} s in all")


if __name__ == "__main__":
    main()
