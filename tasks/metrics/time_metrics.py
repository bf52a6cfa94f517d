"""The metrics of time: steps, stalls, the use of the devices."""

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from statistics import median

from tasks.metrics.merged_steps import place_of, step_table
from tasks.metrics.metric import Metric, number
from tasks.metrics.time_account import is_stall, is_steady
from tasks.records import Measured, RunFacts, RunRecord, Source, TimePart

TOO_FEW = "too few steps"
# the beginning of a device's name -> its TFLOP/s in bfloat16, dense, by its maker; the first that fits
PEAKS = {
    "TPU v4": 275.0, "TPU v5 lite": 197.0, "TPU v5e": 197.0, "TPU v5": 459.0, "TPU v6": 918.0,
    "NVIDIA A100": 312.0, "NVIDIA H100 80GB HBM3": 989.0, "NVIDIA H200": 989.0, "NVIDIA B200": 2250.0,
}  # fmt: skip


def first_step(run: RunRecord, facts: RunFacts) -> Measured:
    """Return the seconds of the first step."""
    table = step_table(run)
    if not table.height or table["seconds"][0] is None:
        return Measured()
    return number(table["seconds"][0], 3, place_of(table))


def mfu_percent(run: RunRecord, seconds: float) -> float | None:
    """Return the share of the device's FLOP/s that steps of so many seconds use; None for an unknown device."""
    kind, flops = run.reading.environment.device_kind or "", run.reading.flops.total_tflops
    peak = next((peak for name, peak in PEAKS.items() if kind.startswith(name)), None)
    return None if peak is None or flops is None else 100 * flops / seconds / peak


def stalled(run: RunRecord, facts: RunFacts) -> Measured:
    """Return the seconds of a run's stalls above its median step."""
    return stalled_of_runs([run], [facts]).model_copy(update={"samples": step_table(run).height - 1})


def stalled_of_runs(runs: Sequence[RunRecord], facts: Sequence[RunFacts]) -> Measured:
    """Return the median over the runs, with the number of stalls by cause; its place is that of the longest."""
    accounts = [one.account for one in facts if one.account and is_steady(one.account)]
    if not accounts:
        return Measured()
    stalls = [[(n, part) for part in account.parts if is_stall(part)] for n, account in enumerate(accounts)]
    seconds = median(sum(part.seconds for _, part in parts) for parts in stalls)
    counts: Counter[str] = Counter()
    for _, part in chain(*stalls):
        counts[part.part] += part.steps
    words = ", ".join(f"{count} × {name}" for name, count in counts.items())
    if not words:
        return Measured(value=seconds, text=f"{seconds:.1f}")
    runs_of = f" in {len(stalls)} runs" if len(stalls) > 1 else ""
    longest = max(chain(*stalls), key=lambda pair: pair[1].seconds)
    return Measured(value=seconds, text=f"{seconds:.1f} ({words}{runs_of})", source=_place(*longest))


def _place(run: int, part: TimePart) -> Source | None:
    return part.source and part.source.model_copy(update={"run": run})


STEP_TIME = Metric(
    name="step_time_s", title="Step time, steady", unit="s", better="lower",
    rule="10 % quantile without the first step and dispatch artefacts, mean of the runs; ±: what a run leaves open",
    decimals=4, judged="noise", tolerance="step_time_s", trend=True, quick="step_time_quick_s",
    middle="Step time, middle steps", curve="step_time_s", curve_title="Step time", bisected=True, explained=True,
)  # fmt: skip
CPU_TIME = Metric(
    name="step_cpu_time_s", title="CPU time per step", unit="s", better="lower",
    rule="processor time of all threads; as the step time", decimals=4,
    judged="noise", tolerance="step_cpu_time_s", trend=True, quick="step_cpu_time_quick_s",
    middle="CPU time per step, middle steps", curve="step_cpu_time_s", bisected=True, explained=True, optional=True,
)  # fmt: skip
STALLS = Metric(
    name="stall_s", title="Stalls", unit="s", better="lower",
    rule="seconds above the steady median, summed over the stalls of a run; the median of the runs", decimals=1,
    judged="shown", why="waiting for checkpoints and the host, kept apart from the step time: storage decides it",
    of=stalled, of_runs=stalled_of_runs, lacking=TOO_FEW, trend=True,
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
TIME_METRICS = (STEP_TIME, CPU_TIME, STALLS, FIRST_STEP, MFU)
