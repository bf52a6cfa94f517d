"""Averages the time accounts (compile, checkpoint, …) of the runs of an arm, for words and for bars.

An arm is one of the two compared versions.
"""

import math

from configs.frozen import Frozen
from tasks.publish.content.amounts import show_seconds
from tasks.records.compared_case import ComparisonRecord
from tasks.records.run_facts import TimePart
from tasks.records.text import visible

MIN_SHARE = 0.0005  # share of an arm's time; smaller parts are not listed
PERCENT_A_LETTER = 0.8  # width of a letter, 6 px, in percent of a bar of 750 px
TICKS = 5  # largest number of intervals of the axis


def average_parts(record: ComparisonRecord, arm: str) -> list[TimePart]:
    """Return the mean of each part over the arm's runs, in order of occurrence.

    Shares are of the runs' total time. The number of steps is the sum over the runs; the source is usually the longest
    part's.
    """
    accounts = [account for account in record.times if account.arm == arm]
    total = sum(account.total_s for account in accounts)
    parts: dict[str, TimePart] = {}
    for part in (part for account in accounts for part in account.parts):
        before = parts.get(part.part)
        if before is None:
            parts[part.part] = part
            continue
        longest = max((before, part), key=lambda item: item.seconds if item.source else 0.0)
        added = {"seconds": before.seconds + part.seconds, "steps": before.steps + part.steps, "source": longest.source}
        parts[part.part] = before.replace(**added)
    return [
        part.replace(seconds=part.seconds / len(accounts), share=part.seconds / total if total else 0.0)
        for part in parts.values()
    ]


def describe_part(part: TimePart) -> str:
    """Return a part in words: `checkpoint 11.7 s (67 %)`."""
    return f"{visible(part.part)} {show_seconds(part.seconds)} ({100 * part.share:.0f} %)"


def list_parts(record: ComparisonRecord, arm: str) -> list[TimePart]:
    """Return the parts that are at least MIN_SHARE of the time, the largest first."""
    parts = [part for part in average_parts(record, arm) if part.share >= MIN_SHARE]
    return sorted(parts, key=lambda part: -part.seconds)


class BarPart(Frozen):
    """One part of an arm's bar; `x` (its begin) and `width` are in percent of the longer mean run of both arms."""

    part: TimePart
    x: float
    width: float

    @property
    def words(self) -> str:
        """Return the part in words: `start 19.9 s`."""
        return f"{visible(self.part.part)} {show_seconds(self.part.seconds)}"

    @property
    def has_room(self) -> bool:
        """Return whether the words of the part fit into its bar on a wide screen."""
        return self.width >= PERCENT_A_LETTER * len(self.words) + 1


def axis_ticks(bars: dict[str, list[BarPart]]) -> list[tuple[float, str]]:
    """Return (x in percent, label) of each tick of the axis, at multiples of 1, 2 or 5 × a power of ten seconds."""
    longest = max((sum(bar.part.seconds for bar in parts) for parts in bars.values()), default=0.0)
    if longest <= 0:
        return []
    power = 10.0 ** math.floor(math.log10(longest / TICKS))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor * TICKS >= longest)
    return [(round(100 * at * step / longest, 2), f"{at * step:g} s") for at in range(int(longest / step) + 1)]


def _order_in_time(part: TimePart) -> int:
    """Return a sort key: start, compile, all other parts, parts at the end, and the end last."""
    return {"start": -2, "compile": -1, "end": 2}.get(part.part, int(part.part.endswith(" at the end")))


def place_time_bars(record: ComparisonRecord) -> dict[str, list[BarPart]]:
    """Return name of the arm → parts of the bar of its mean run; omits arms without an account."""
    found = {arm.name: average_parts(record, arm.name) for arm in (record.baseline, record.candidate)}
    longest = max((sum(part.seconds for part in parts) for parts in found.values()), default=0.0)
    bars: dict[str, list[BarPart]] = {}
    for name, parts in found.items():
        x = 0.0
        for part in sorted(parts, key=_order_in_time) if longest else ():
            width = 100 * part.seconds / longest
            bars.setdefault(name, []).append(BarPart(part=part, x=round(x, 3), width=round(width, 3)))
            x += width
    return bars
