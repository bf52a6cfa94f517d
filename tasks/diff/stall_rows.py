"""Turns what stalls cost the runs of two arms into a row."""

from collections import Counter
from itertools import chain
from statistics import median

from tasks.diff.arms import ArmRuns
from tasks.diff.metric_row import Arms, Cell, Metric, make_row, missing_decision, not_judged
from tasks.diff.time_account import COMPUTE, is_stall
from tasks.diff.time_rows import TOO_FEW
from tasks.records import MetricDiff, TimeAccount

STALLS = Metric(
    name="stall_s",
    title="Stalls",
    unit="s",
    better="lower",
    rule="seconds above the steady median, summed over the stalls of a run; the median of the runs",
    decimals=1,
)
REASON = "waiting for checkpoints and the host, kept apart from the step time: storage decides it"


def stall_row(arms: Arms, times: tuple[TimeAccount, ...]) -> MetricDiff:
    """What stalls cost a run, and why: storage decides it more than the trainer, so it is shown and not judged."""
    cells = (_cell(arms[0], times), _cell(arms[1], times))
    return make_row(STALLS, cells, arms, missing_decision(cells, arms) or not_judged(REASON))


def _cell(arm: ArmRuns, times: tuple[TimeAccount, ...]) -> Cell:
    accounts = [account.parts for account in times if account.arm == arm.name]
    stalls = [[part for part in parts if is_stall(part)] for parts in accounts if COMPUTE in {p.part for p in parts}]
    if not stalls:
        return Cell(text="" if arm.dead else TOO_FEW)
    seconds = median(sum(part.seconds for part in parts) for parts in stalls)
    counts: Counter[str] = Counter()
    for part in chain(*stalls):
        counts[part.part] += part.steps
    words = ", ".join(f"{count} × {name}" for name, count in counts.items())
    if not words:
        return Cell(value=seconds, text=f"{seconds:.1f}")
    runs = f" in {len(stalls)} runs" if len(stalls) > 1 else ""
    longest = max(chain(*stalls), key=lambda part: part.seconds)
    return Cell(value=seconds, text=f"{seconds:.1f} ({words}{runs})", source=longest.source)
