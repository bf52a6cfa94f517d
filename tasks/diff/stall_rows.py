"""Turns what stalls cost the runs of two arms into rows: all of them, and each cause by itself."""

from collections import Counter
from statistics import median

from tasks.diff.arms import ArmRuns
from tasks.diff.rows import Arms, Cell, Metric, make_row, missing_decision, not_judged
from tasks.diff.time_rows import TOO_FEW
from tasks.diff.times import is_stall
from tasks.records import MetricDiff, TimeAccount, TimePart

STALLS = Metric(
    name="stall_s",
    title="Stalls",
    unit="s",
    better="lower",
    rule="seconds above the steady median, summed over the stalls of a run; the median of the runs",
    decimals=1,
)
REASON = "waiting for checkpoints and the host, kept apart from the step time: storage decides it"


def stall_rows(arms: Arms, times: tuple[TimeAccount, ...]) -> list[MetricDiff]:
    """What stalls cost a run, and why: storage decides it more than the trainer, so it is shown and not judged."""
    found = [part.part for account in times for part in account.parts if is_stall(part)]
    causes = [cause for cause, _ in Counter(found).most_common()]
    rows = []
    for cause in (None, *causes):
        metric = STALLS
        if cause is not None:
            name, title = f"stall_{cause}_s", f"Stalls: {cause}"
            metric = STALLS.model_copy(update={"name": name, "title": title})
        cells = (_cell(arms[0], times, cause), _cell(arms[1], times, cause))
        decision = missing_decision(cells, arms) or not_judged(REASON)
        rows.append(make_row(metric, cells, arms, decision))
    return rows


def _cell(arm: ArmRuns, times: tuple[TimeAccount, ...], cause: str | None) -> Cell:
    accounts = [_stalls(account, cause) for account in times if account.arm == arm.name]
    if not accounts:
        return Cell(text="" if arm.dead else TOO_FEW)
    seconds = median(sum(part.seconds for part in parts) for parts in accounts)
    parts = [part for account in accounts for part in account]
    counts: Counter[str] = Counter()
    for part in parts:
        counts[part.part] += part.steps
    words = ", ".join(f"{count} × {name}" if cause is None else f"{count} ×" for name, count in counts.items())
    words += f" in {len(accounts)} runs" if words and len(accounts) > 1 else ""
    longest = max(parts, key=lambda part: part.seconds, default=None)
    return Cell(
        value=seconds,
        text=f"{seconds:.1f}" + (f" ({words})" if words else ""),
        source=longest.source if longest else None,
    )


def _stalls(account: TimeAccount, cause: str | None) -> list[TimePart]:
    """The parts of a run's time that are stalls, of one cause or of any."""
    return [part for part in account.parts if part.part == cause or (cause is None and is_stall(part))]
