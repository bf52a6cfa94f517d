"""The metrics of time: step time, CPU time, stalls, first step, MFU (share of peak FLOP/s), goodput."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import chain
from statistics import median

import numpy as np
import polars as pl

from tasks.metrics.merged_steps import last_of_each_step, place_of_row, step_table
from tasks.metrics.metric import Metric, number
from tasks.metrics.time_account import COMPUTE, is_stall, is_steady
from tasks.records.run import RunRecord
from tasks.records.run_facts import Measured, RunFacts, seconds_between

TOO_FEW = "too few steps"
PRODUCTIVE = "productive step time"
# part of the time account -> category of ml-goodput-measurement; every other part: "other"
BADPUT = {
    COMPUTE: PRODUCTIVE, "dispatch": PRODUCTIVE,
    "start": "initialization", "compile": "program startup", "restart": "infrastructure recovery",
    "checkpoint": "checkpoint save", "blocking saves": "checkpoint save", "waits for saves": "checkpoint save",
    "wait at the end": "checkpoint save", "eval": "evaluation", "evaluation at the end": "evaluation",
}  # fmt: skip
# beginning of a device's name -> the maker's figure for its dense bfloat16 TFLOP/s; the first match is used
PEAKS = {
    "TPU v4": 275.0, "TPU v5 lite": 197.0, "TPU v5e": 197.0, "TPU v5": 459.0, "TPU v6": 918.0,
    "NVIDIA A100": 312.0, "NVIDIA H100 80GB HBM3": 989.0, "NVIDIA H200": 989.0, "NVIDIA B200": 2250.0,
}  # fmt: skip


def first_step(run: RunRecord) -> Measured:
    """Return the seconds of the first step; no value if unknown."""
    table = step_table(run)
    if not table.height or table["seconds"][0] is None:
        return Measured()
    return number(table["seconds"][0], 3, place_of_row(table))


def mfu_percent(run: RunRecord, seconds: float) -> float | None:
    """Return the MFU of steps of `seconds`, in percent; None if the device's peak or the FLOPs are unknown."""
    kind, flops = run.reading.environment.device_kind or "", run.reading.flops.total_tflops
    peak = next((peak for name, peak in PEAKS.items() if kind.startswith(name)), None)
    return None if peak is None or flops is None else 100 * flops / seconds / peak


def stalled(runs: Sequence[RunRecord], facts: Sequence[RunFacts]) -> Measured:
    """Return the seconds that stalls lasted beyond the median step: summed per run, then the median of the runs.

    Runs with too few steps for `account_run` are left out. The text also has the number of stalls by cause, over the
    other runs. The place is the longest stall of the cause that cost most in one run.
    """
    samples = sum(step_table(run).height - 1 for run in runs)
    accounts = [(n, one.account) for n, one in enumerate(facts) if one.account and is_steady(one.account)]
    if not accounts:
        return Measured(samples=samples)
    stalls = [[(n, part) for part in account.parts if is_stall(part)] for n, account in accounts]
    seconds = median(sum(part.seconds for _, part in parts) for parts in stalls)
    counts: Counter[str] = Counter()
    for _, part in chain(*stalls):
        counts[part.part] += part.steps
    words = ", ".join(f"{count} × {name}" for name, count in counts.items())
    if not words:
        return Measured(value=seconds, text=f"{seconds:.1f}", samples=samples)
    runs_of = f" in {len(stalls)} runs" if len(stalls) > 1 else ""
    run, longest = max(chain(*stalls), key=lambda pair: pair[1].seconds)
    place = longest.source and longest.source.replace(run=run)
    return Measured(value=seconds, text=f"{seconds:.1f} ({words}{runs_of})", source=place, samples=samples)


def goodput(runs: Sequence[RunRecord], facts: Sequence[RunFacts]) -> Measured:
    """Return the percentage of wall time in productive steps, over all runs with a known length and enough steps.

    A stalled step counts as a median step, a repeated step once. The note has the other percentages (badput) that are
    not tiny, by the categories of github.com/AI-Hypercomputer/ml-goodput-measurement.
    """
    spent: dict[str, float] = defaultdict(float)
    for run, one in zip(runs, facts, strict=True):
        if one.account and is_steady(one.account) and seconds_between(run.reading.started, run.reading.ended):
            spent["wasted progress"] += (wasted := _repeated_seconds(run))
            spent[PRODUCTIVE] -= wasted
            for part in one.account.parts:
                spent[BADPUT.get(part.part, "other")] += part.seconds
    if not spent:
        return Measured()
    shares = {name: 100 * seconds / sum(spent.values()) for name, seconds in spent.items()}
    value = shares.pop(PRODUCTIVE)
    largest = sorted(shares.items(), key=lambda pair: -pair[1])
    words = [f"{name} {share:.1f} %" for name, share in largest if share >= 0.05]
    return Measured(value=value, text=f"{value:.1f}", note=f"badput {', '.join(words)}" if words else "")


def _repeated_seconds(run: RunRecord) -> float:
    """Return the seconds of steps that were run again later. Each counts as at most a median step."""
    steps = run.reading.steps.filter(pl.col("seconds").is_finite())
    lost = steps.filter(~pl.col("offset").is_in(last_of_each_step(steps)["offset"].implode()))["seconds"]
    return float(lost.clip(upper_bound=float(np.median(steps["seconds"]))).sum()) if len(lost) else 0.0


STEP_TIME = Metric(
    name="step_time_s", title="Step time, steady", unit="s", better="lower",
    rule="10 % quantile without the first step and dispatch artefacts, mean of the runs; ±: what a run leaves open",
    decimals=4, judged="noise", tolerance="step_time_s", trend=True, quick="step_time_quick_s",
    middle="Step time, typical", curve="step_time_s", curve_title="Step time", bisected=True, explained=True,
)  # fmt: skip
PROGRAM_TIME = Metric(
    name="program_step_s", title="Step time of the program", unit="s", better="lower",
    rule="both programs in turns on one device, without the host loop: the median step", decimals=5,
    judged="proof", tolerance="program_time", bisected=True, explained=True, optional=True,
)  # fmt: skip
HOST_TIME = Metric(
    name="host_step_s", title="Step time of the host", unit="s", better="lower",
    rule="both loops in turns, less both programs in turns", decimals=4,
    judged="shown", why="a part of the step time", optional=True,
)  # fmt: skip
CPU_TIME = Metric(
    name="step_cpu_time_s", title="CPU time per step", unit="s", better="lower",
    rule="processor time of all threads; as the step time", decimals=4,
    judged="noise", tolerance="step_cpu_time_s", trend=True, quick="step_cpu_time_quick_s",
    middle="CPU time per step, typical", curve="step_cpu_time_s", bisected=True, explained=True, optional=True,
)  # fmt: skip
STALLS = Metric(
    name="stall_s", title="Stalls", unit="s", better="lower",
    rule="seconds above the median step, summed over the stalls of a run; the median of the runs", decimals=1,
    judged="shown", why="waiting for checkpoints and the host, apart from the step time: storage decides it",
    of_runs=stalled, lacking=TOO_FEW, trend=True,
)  # fmt: skip
FIRST_STEP = Metric(
    name="first_step_s", title="First step", unit="s", better="lower", rule="seconds of the first step", decimals=3,
    judged="shown", why="compilation and the first execution, once per run", of=first_step, trend=True,
)  # fmt: skip
MFU = Metric(
    name="mfu", title="MFU", unit="%", better="higher",
    rule="TFLOP of a step and device, by the steady step time, over the TFLOP/s that the device can do", decimals=2,
    judged="shown", why="follows from the steady step time, which is judged", of_steps=mfu_percent, optional=True,
)  # fmt: skip
GOODPUT = Metric(
    # neither is better: a slower step computes for a larger share of the time
    name="goodput", title="Goodput", unit="%", better="equal",
    rule="productive step time over the run's wall time, all runs together", decimals=1,
    judged="shown", why="follows from the step time, which is judged, and from storage, restarts and the run's length",
    of_runs=goodput, optional=True, trend=True,
)  # fmt: skip
TIME_METRICS = (PROGRAM_TIME, STEP_TIME, HOST_TIME, CPU_TIME, STALLS, FIRST_STEP, MFU, GOODPUT)
