"""Reads what loggers put before a line: absl's `I0418 00:55:39.221671 1351… metric_logger.py:196] ` and XPK's dates."""

import re
from datetime import UTC, datetime

from configs.schema import Frozen

# severity, MMDD, time of day, thread, source file and line; the year is nowhere in it
ABSL = rb"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ [\w.+-]+:\d+\] ?"
PREFIX = re.compile(rb"[IWEF](\d{4} \d\d:\d\d:\d\d\.\d{6}) +\d+ ([\w.+-]+:\d+)\] ?")
# what may stand between the prefix and a step: MaxText's `[Rampup Batch Size Phase], `
_PREFIX_OF_STEP = re.compile(rb"[IWEF](\d{4} \d\d:\d\d:\d\d\.\d{6}) +\d+ ([\w.+-]+:\d+)\] ?(?:\[[^\]\n]*\], )?\Z")
_PREFIX_OF_TEXT = re.compile(rb".*[IWEF](\d{4} \d\d:\d\d:\d\d\.\d{6}) +\d+ ([\w.+-]+:\d+)\] ?[^\n]*\Z", re.DOTALL)
# longer than any prefix with its thread, file name and phase
LOOK_BACK = 200


class LinePrefix(Frozen):
    """A logger's prefix: where it starts in the searched bytes, `MMDD hh:mm:ss.ffffff`, and `file.py:line`."""

    start: int
    time: str
    source: str


def prefix_of_step(data: bytes, position: int) -> LinePrefix | None:
    """The prefix that ends where a step line's own text starts."""
    return _find(_PREFIX_OF_STEP, data, position)


def prefix_of_text(data: bytes, position: int) -> LinePrefix | None:
    """The last prefix before a position, on the same line and not far from it."""
    first = max(0, position - LOOK_BACK)
    match = _PREFIX_OF_TEXT.match(data, first, position)
    return LinePrefix(start=match.start(1) - 1, time=match[1].decode(), source=match[2].decode()) if match else None


def _find(pattern: re.Pattern[bytes], data: bytes, position: int) -> LinePrefix | None:
    match = pattern.search(data, max(0, position - LOOK_BACK), position)
    return LinePrefix(start=match.start(), time=match[1].decode(), source=match[2].decode()) if match else None


def parse_date(text: str) -> datetime | None:
    """A date as `date` prints it in an XPK pod (`Sat Apr 18 00:54:24 UTC 2026`); None if it is in another form."""
    words = text.split()
    if len(words) == 7:  # 12-hour clock: Sat Apr 18 00:54:24 AM UTC 2026
        zone, form, joined = words[5], "%a %b %d %I:%M:%S %p %Y", " ".join([*words[:5], words[6]])
    elif len(words) == 6:
        zone, form, joined = words[4], "%a %b %d %H:%M:%S %Y", " ".join([*words[:4], words[5]])
    else:
        return None
    try:
        moment = datetime.strptime(joined, form)
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if zone in ("UTC", "GMT") else moment


def iso_time(raw: str | None, first_day: datetime | None) -> str | None:
    """`0418 00:55:39.221671` as ISO 8601, in the year that is nearest to `first_day`; None without a year."""
    if raw is None or first_day is None:
        return None
    apart = int(raw[:2]) - first_day.month  # no run takes half a year, but some see a new one
    year = first_day.year + (apart < -6) - (apart > 6)
    return f"{year}-{raw[:2]}-{raw[2:4]}T{raw[5:]}"
