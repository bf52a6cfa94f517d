"""Turns the accounts of the time of each run into one list of parts per arm, and those into words."""

from configs.schema import Frozen
from tasks.records import ComparisonRecord, TimePart
from tasks.records.text import visible

LEAST_SHARE = 0.0005  # less is not worth a word
PERCENT_A_LETTER = 0.7  # of a bar of 850 px, in which a letter takes 6


def average_parts(record: ComparisonRecord, arm: str) -> list[TimePart]:
    """The mean of each part over the arm's runs, in the order of the first run that has it; shares are of the sum."""
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
        parts[part.part] = before.model_copy(update=added)
    return [
        part.model_copy(
            update={"seconds": part.seconds / len(accounts), "share": part.seconds / total if total else 0.0}
        )
        for part in parts.values()
    ]


def describe_part(part: TimePart) -> str:
    """`checkpoint 11.7 s (67 %)`."""
    return f"{visible(part.part)} {show_seconds(part.seconds)} ({100 * part.share:.0f} %)"


def list_parts(record: ComparisonRecord, arm: str) -> list[TimePart]:
    """The parts that are worth showing, the largest first."""
    parts = [part for part in average_parts(record, arm) if part.share >= LEAST_SHARE]
    return sorted(parts, key=lambda part: -part.seconds)


def show_seconds(seconds: float) -> str:
    """Seconds with three digits that count."""
    return f"{seconds:.0f} s" if seconds >= 100 else f"{seconds:.3g} s"


class Bar(Frozen):
    """One part of an arm's bar: where it begins and how wide it is, in percent of the longer arm's run."""

    part: TimePart
    x: float
    width: float

    @property
    def words(self) -> str:
        """`start 19.9 s`."""
        return f"{visible(self.part.part)} {show_seconds(self.part.seconds)}"

    @property
    def has_room(self) -> bool:
        """Whether its words fit into it, where a bar is as wide as on a desk."""
        return self.width >= PERCENT_A_LETTER * len(self.words) + 1


def _as_it_went(part: TimePart) -> int:
    """A run starts and compiles first, and ends last; what is between came by turns."""
    return {"start": -2, "compile": -1, "end": 2}.get(part.part, int(part.part.endswith(" at the end")))


def draw_bars(record: ComparisonRecord) -> dict[str, list[Bar]]:
    """The parts of the mean run of each arm side by side, by the arm's name; an arm without an account has none."""
    found = {arm.name: average_parts(record, arm.name) for arm in (record.baseline, record.candidate)}
    longest = max((sum(part.seconds for part in parts) for parts in found.values()), default=0.0)
    bars: dict[str, list[Bar]] = {}
    for name, parts in found.items():
        x = 0.0
        for part in sorted(parts, key=_as_it_went) if longest else ():
            width = 100 * part.seconds / longest
            bars.setdefault(name, []).append(Bar(part=part, x=round(x, 3), width=round(width, 3)))
            x += width
    return bars
