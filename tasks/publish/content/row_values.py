"""Shows the values and the change of a row with three significant digits."""

import re
from math import isfinite

from tasks.diff.judge.metric_rows import ABSENT, DIED
from tasks.metrics.memory_metrics import HOST_GROWTH
from tasks.records.compared_case import MetricDiff
from tasks.records.text import MEGA, show_digits, show_number, show_share, visible

WITHOUT_PERCENT = ("%", HOST_GROWTH.unit)  # units of values whose ratio tells nothing
LEAST_PERCENT = 0.001  # a smaller change is shown as less than this
COUNTED = 1000  # numbers without unit and decimals below it are counts, such as of programs
NUMBER = re.compile(r"-?[\d.,]+(e[-+]?\d+)?( (b|m|tr)illion| thousand)?")  # a text without a note


def show_percent(row: MetricDiff) -> str:
    """Return the relative difference, such as `+16.9 %`; empty if the values are no numbers or the baseline is 0.

    NaN and infinities are no numbers. Empty also for values in percent without an effect, because a percentage of them
    could be taken for points, and for the growth of memory, which is about 0 without a leak.
    """
    effect = row.effect
    if effect is None:
        if row.baseline is None or row.candidate is None or row.unit in WITHOUT_PERCENT:
            return ""
        if not row.baseline or row.baseline == row.candidate:
            return ""
        effect = row.candidate / row.baseline - 1
    if not isfinite(effect):
        return ""
    percent = 100 * effect
    if abs(percent) >= 100:
        return f"{percent:+,.0f} %"
    if abs(percent) >= 0.05 or not percent:
        return f"{show_share(effect)} %"
    return f"{percent:+.1g} %" if abs(percent) >= LEAST_PERCENT else f"under {LEAST_PERCENT} %"


def show_sides(row: MetricDiff) -> tuple[str, str]:
    """Return the value of each side: `80.0 ms`, `1.00 M`; a value that is no number as it was read."""
    (left, right), unit = _round_sides(row)
    numbers = row.baseline is not None, row.candidate is not None
    return f"{left}{unit if numbers[0] else ''}", f"{right}{unit if numbers[1] else ''}"


def show_values(row: MetricDiff) -> str:
    """Return both values: `80.0 → 93.5 ms`, `1.00 M → 2.00 M`; one text if they are equal."""
    (left, right), unit = _round_sides(row)
    if row.baseline is None or row.candidate is None:
        left, right = show_sides(row)
        unit = ""
    return f"{left if left == right else f'{left or "none"} → {right or "none"}'}{unit}"


def name_unit(row: MetricDiff) -> str:
    """Return the unit of a row if neither its title nor its values contain it; else empty."""
    named = row.unit in row.title.replace("/", " ").split() or _round_sides(row)[1]
    return "" if named else visible(row.unit)


def show_seconds_of(left: float, right: float) -> str:
    """Return two durations in one unit: `80.0 → 93.5 ms`."""
    scale, unit = _scale_seconds(left, right)
    return f"{show_digits(left * scale)} → {show_digits(right * scale)} {unit}"


def _scale_seconds(*values: float) -> tuple[float, str]:
    return (1e3, "ms") if 0 < max(values) < 1 else (1.0, "s")


def _round_sides(row: MetricDiff) -> tuple[tuple[str, str], str]:
    """Return both texts, and a space and their unit if they are rounded numbers whose unit the title does not name.

    Equal numbers keep their digits, and so do numbers that differ only behind the third digit, or have a note.
    """
    texts = visible(row.baseline_text), visible(row.candidate_text)
    values = [value for value in (row.baseline, row.candidate) if value is not None]
    plain = all(NUMBER.fullmatch(text) for text in texts if text not in (ABSENT, DIED))
    seconds, equal = row.unit == "s", len(set(values)) < 2
    if not values or not plain or (texts[0] == texts[1] and equal and not seconds and values[0] < MEGA):
        return texts, ""
    if not row.unit and not row.decimals and max(values) < COUNTED:
        return texts, ""
    scale, unit = _scale_seconds(*values) if seconds else (1.0, "" if row.unit in row.title else visible(row.unit))
    show = show_digits if seconds else show_number
    left, right = (
        text if value is None else show(value * scale)
        for text, value in zip(texts, (row.baseline, row.candidate), strict=True)
    )
    if left == right and row.baseline != row.candidate and not seconds:
        return texts, ""
    return (left, right), f" {unit}" if unit and "/" not in unit else ""
