"""Reads the value of each metric from one run: its log, its metrics file, the trainer's report, its levels."""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from statistics import median

from tasks.metrics.merged_steps import place_of, step_table
from tasks.metrics.time_account import is_stall, is_steady
from tasks.records import Measured, RunFacts, RunRecord, Source, TimePart

GIB = 2**30  # what MaxText prints as GB
MEMORY_PARTS = ("argument", "output", "temp")  # less "alias", which arguments and outputs share: as MaxText adds them
MEMORY_DECIMALS = 2  # of the `Using (GB)` lines, from which the percentage comes
# the beginning of a device's name -> its TFLOP/s in bfloat16, dense, by its maker; the first that fits
PEAKS = {
    "TPU v4": 275.0, "TPU v5 lite": 197.0, "TPU v5e": 197.0, "TPU v5": 459.0, "TPU v6": 918.0,
    "NVIDIA A100": 312.0, "NVIDIA H100 80GB HBM3": 989.0, "NVIDIA H200": 989.0, "NVIDIA B200": 2250.0,
}  # fmt: skip


def number(value: float, decimals: int, source: Source | None, *, unit: float = 0.0) -> Measured:
    """Return a number with the text that shows it."""
    return Measured(value=value, text=f"{value:.{decimals}f}", source=source, unit=unit)


def last_step(column: str, decimals: int) -> Callable[[RunRecord, RunFacts], Measured]:
    """Return a reader of the last step's value in a column of the log."""

    def read(run: RunRecord, facts: RunFacts) -> Measured:
        steps = run.reading.steps
        known = not steps.is_empty() and column in steps.columns
        value = steps[column][-1] if known else None
        return Measured() if value is None else number(value, decimals, place_of(steps, -1))

    return read


def mean_step(run: RunRecord, facts: RunFacts) -> Measured:
    """Return the printed seconds of a step without step 0, on average."""
    steps = run.reading.steps
    steps = steps.filter((steps["step"] != 0) & steps["seconds"].is_not_null())
    return Measured() if steps.is_empty() else number(float(steps["seconds"].sum()) / steps.height, 3, place_of(steps))


def parameters(run: RunRecord, facts: RunFacts) -> Measured:
    """Return the printed number of parameters. A count that was rounded to nothing is compared as it is printed."""
    found = run.reading.parameters
    if found.printed is None:
        return Measured()
    return Measured(value=float(found.count or 0), text=found.printed, source=found.source)


def memory_percent(run: RunRecord, facts: RunFacts) -> Measured:
    """Return the used memory of the fullest device; the unit is of the smallest device."""
    devices = run.reading.memory.devices
    if not devices:
        return Measured()
    fullest = max(devices, key=lambda device: device.percent)
    limits = [device.limit_gb for device in devices if device.limit_gb > 0]
    unit = 100.0 * 10.0**-MEMORY_DECIMALS / min(limits) if limits else 0.0
    return number(fullest.percent, 2, Source(line=fullest.line, offset=fullest.offset), unit=unit)


def jax_version(run: RunRecord, facts: RunFacts) -> Measured:
    """Return the version of JAX, as text."""
    return Measured(text=run.reading.environment.jax or "", source=run.reading.sources.get("jax"))


def first_step(run: RunRecord, facts: RunFacts) -> Measured:
    """Return the seconds of the first step."""
    table = step_table(run)
    if not table.height or table["seconds"][0] is None:
        return Measured()
    return number(table["seconds"][0], 3, place_of(table))


def program_memory(run: RunRecord, facts: RunFacts) -> Measured:
    """Return the compiler's forecast for one device in GiB: from the trainer's own report, else as printed."""
    stated = run.program.get("memory_bytes")
    sizes = [stated.get(name) for name in (*MEMORY_PARTS, "alias")] if isinstance(stated, dict) else [None]
    known = [size for size in sizes if isinstance(size, int)]
    if len(known) < len(sizes):
        return printed_memory(run)
    return number((sum(known[:-1]) - known[-1]) / GIB, 4, run.reading.memory.source)


def printed_memory(run: RunRecord) -> Measured:
    """Return the same as the log prints it, in units of 0.1."""
    memory = run.reading.memory
    return Measured() if memory.total_gb is None else number(memory.total_gb, 1, memory.source, unit=0.1)


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
