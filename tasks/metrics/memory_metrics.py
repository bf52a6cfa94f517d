"""The metrics of the memory that a run used, on its host and on its fullest device: the peak, and the growth per step.

The columns of the metrics file are bytes at the end of a step. maxview's trainer writes them; another trainer may.
"""

from collections.abc import Callable, Sequence
from math import ceil

import numpy as np
from numpy.typing import NDArray

from tasks.metrics.merged_steps import last_of_each_step
from tasks.metrics.metric import Metric, OfRun
from tasks.metrics.program_metrics import GIB, MIB
from tasks.records.run import RunRecord
from tasks.records.run_facts import Measured, RunFacts

HOST, HOST_PEAK_COLUMN = "host_memory_b", "host_memory_peak_b"
DEVICE, DEVICE_PEAK_COLUMN = "device_memory_b", "device_memory_peak_b"
WARM_UP = 2  # first steps, in which buffers are allocated once
MIN_STEPS = 8  # fewest steps after WARM_UP that show a growth
LEFT_OUT = 0.1  # share of the steps with the largest growth, and of those with the smallest


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
    """Return the mean growth per step, without the tenth of the steps that grow most and the tenth that grow least.

    A leak grows in most steps. An allocator asks the system for much memory in a few steps: these jumps are left out,
    so that a leak that fills such memory looks smaller than it is.
    """
    grown = np.sort(np.diff(values))
    left_out = ceil(LEFT_OUT * grown.size)
    return float(grown[left_out : grown.size - left_out].mean())


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
        rule=f"mean growth of {where} without the largest and the smallest tenth; the median of the runs", decimals=3,
        judged="proof", of_runs=median_of(growth_of(column)), optional=True, trend=True,
    )  # fmt: skip


HOST_PEAK = _peak("host_memory_gb", "Host memory, peak", host_peak, "largest resident memory of the trainer's process")
HOST_GROWTH = _growth("host_memory_growth", "Host memory, growth", HOST, "the resident memory")
DEVICE_PEAK = _peak("device_memory_gb", "Device memory, peak", device_peak, "largest use of the fullest device")
DEVICE_GROWTH = _growth("device_memory_growth", "Device memory, growth", DEVICE, "the use of the fullest device")
MEMORY_METRICS = (HOST_PEAK, HOST_GROWTH, DEVICE_PEAK, DEVICE_GROWTH)
