"""The metrics of the memory that a run used, on its host and on its fullest device: the peak, and the growth per step.

The columns of the metrics file are bytes at the end of a step. maxview's trainer writes them; another trainer may.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from tasks.metrics.merged_steps import last_of_each_step
from tasks.metrics.metric import Metric, OfRun
from tasks.metrics.program_metrics import GIB, MIB
from tasks.records import Measured, RunFacts, RunRecord

HOST, HOST_PEAK_COLUMN = "host_memory_b", "host_memory_peak_b"
DEVICE, DEVICE_PEAK_COLUMN = "device_memory_b", "device_memory_peak_b"
WARM_UP = 2  # first steps, in which buffers are allocated once
MIN_STEPS = 8  # fewest steps after WARM_UP that show a growth: each half has four


def host_peak(run: RunRecord) -> Measured:
    """Return the peak of the host's resident memory in GiB: the trainer's, else the supervisor's of its processes."""
    peak = _largest(run, HOST_PEAK_COLUMN)
    return _shown(run.host_peak_b if peak is None else peak, GIB)


def device_peak(run: RunRecord) -> Measured:
    """Return the peak of the memory used on the fullest device in GiB."""
    return _shown(_largest(run, DEVICE_PEAK_COLUMN), GIB)


def growth_of(column: str) -> OfRun:
    """Return a function that returns a run's growth of a column in MiB per step; no value if it has too few steps."""

    def grow(run: RunRecord) -> Measured:
        used = _series(run, column)
        if used is None or used.size < WARM_UP + MIN_STEPS:
            return Measured()
        used = used[WARM_UP:]
        value = steady_growth(used) / MIB
        return Measured(value=value, text=f"{value:.3f}", samples=int(used.size))

    return grow


def steady_growth(values: NDArray[np.float64]) -> float:
    """Return the growth per step that both halves of the values have; 0.0 if one grows and the other does not.

    A leak grows in every part of a run. An allocation that happens once, like the buffers of the first save, falls into
    one half. The slope of a half is the median of the slopes of all its pairs of steps (Theil and Sen), which single
    jumps do not move.
    """
    half = len(values) // 2
    slopes = [_slope(part) for part in (values[:half], values[half:])]
    if min(slopes) > 0:
        return min(slopes)
    return max(slopes) if max(slopes) < 0 else 0.0


def _slope(values: NDArray[np.float64]) -> float:
    left, right = np.triu_indices(len(values), k=1)
    return float(np.median((values[right] - values[left]) / (right - left)))


def _series(run: RunRecord, column: str) -> NDArray[np.float64] | None:
    """Return a column of the run's metrics file by ascending step; None if a step lacks it."""
    if run.metrics is None or column not in run.metrics.columns or not run.metrics.height:
        return None
    values = last_of_each_step(run.metrics)[column]
    return None if values.null_count() or not values.dtype.is_numeric() else values.cast(float).to_numpy()


def _largest(run: RunRecord, column: str) -> float | None:
    values = _series(run, column)
    return None if values is None else float(values.max())


def _shown(peak: float | None, unit: int) -> Measured:
    return Measured() if peak is None else Measured(value=peak / unit, text=f"{peak / unit:.3f}")


def median_of(of: OfRun) -> Callable[[Sequence[RunRecord], Sequence[RunFacts]], Measured]:
    """Return a function that returns the run's value that is the median of the arm's runs; no value if a run has none.

    Of an even number of runs, it is the smaller of the two in the middle.
    """

    def choose(runs: Sequence[RunRecord], facts: Sequence[RunFacts]) -> Measured:
        found = sorted((of(run) for run in runs), key=lambda one: one.value or 0.0)
        known = [one for one in found if one.value is not None]
        return known[(len(known) - 1) // 2] if len(known) == len(runs) else Measured()

    return choose


def _peak(name: str, title: str, of: OfRun, rule: str) -> Metric:
    return Metric(
        name=name, title=title, unit="GiB", better="lower", rule=f"{rule}; the median of the runs", decimals=3,
        judged="proof", tolerance=name, of_runs=median_of(of), optional=True, trend=True,
    )  # fmt: skip


def _growth(name: str, title: str, column: str, where: str) -> Metric:
    return Metric(
        name=name, title=title, unit="MiB/step", better="lower",
        rule=f"growth of {where} that both halves of the steps have; the median of the runs", decimals=3,
        judged="proof", of_runs=median_of(growth_of(column)), optional=True, trend=True,
    )  # fmt: skip


HOST_PEAK = _peak("host_memory_gb", "Host memory, peak", host_peak, "largest resident memory of the trainer's process")
HOST_GROWTH = _growth("host_memory_growth", "Host memory, growth", HOST, "the resident memory")
DEVICE_PEAK = _peak("device_memory_gb", "Device memory, peak", device_peak, "largest use of the fullest device")
DEVICE_GROWTH = _growth("device_memory_growth", "Device memory, growth", DEVICE, "the use of the fullest device")
MEMORY_METRICS = (HOST_PEAK, HOST_GROWTH, DEVICE_PEAK, DEVICE_GROWTH)
