"""Reads what loggers and launchers put before a line: absl's `I0418 00:55:39.221671 1351… metric_logger.py:196] `, and
of each rank `[default3]:`, `[node:3]:`, `1:`, `[time][rank-3/8]…`; and their dates."""

import re
from datetime import UTC, datetime

import polars as pl

from tasks.scrape.window import Window

# severity, MMDD, time of day, thread, source file and line; the year is nowhere in it
ABSL = rb"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ [\w.+-]+:\d+\] ?"
PREFIX = re.compile(rb"[IWEF](\d{4} \d\d:\d\d:\d\d\.\d{6}) +\d+ ([\w.+-]+:\d+)\] ?")
# where free text ends: at a line break, at the next record, at a line that has no prefix
NEXT = (
    rb"\n|\Z|%s|Config param |System Information: |Num_devices: |completed step|XPK End:|EXIT_CODE=|"
    rb"Traceback \(most |Per train step:" % ABSL
)


# longer than any prefix with its thread, file name and phase
LOOK_BACK = 200


def prefix_before(window: Window, position: int) -> tuple[str | None, str | None]:
    """The time (`MMDD hh:mm:ss.ffffff`) and the source (`file.py:line`) of the last logger's prefix before a position,
    on the same line and not far from it."""
    found = list(PREFIX.finditer(line_before(window.data, position, LOOK_BACK)))
    return (found[-1][1].decode(), found[-1][2].decode()) if found else (None, None)


def parse_date(text: str) -> datetime | None:
    """A date as `date` prints it in an XPK pod (`Sat Apr 18 00:54:24 UTC 2026`, or `… 12:54:24 AM UTC 2026`); None if
    it is in another form."""
    *words, zone, year = text.split()
    clock = "%I:%M:%S %p" if words[-1:] in (["AM"], ["PM"]) else "%H:%M:%S"
    try:
        moment = datetime.strptime(" ".join([*words, year]), f"%a %b %d {clock} %Y")
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if zone in ("UTC", "GMT") else moment


def iso_time(raw: str | None, first_day: datetime | None) -> str | None:
    """`0418 00:55:39.221671` as ISO 8601, in the year that is nearest to `first_day`; None without a year."""
    return pl.select(iso_in_year(pl.lit(raw, pl.String), first_day)).item()  # type: ignore[no-any-return]


def iso_in_year(raw: pl.Expr, first_day: datetime | None) -> pl.Expr:
    """The column of `iso_time`."""
    if first_day is None:
        return pl.lit(None, pl.String)
    # no run takes half a year, but some see a new one
    apart = raw.str.slice(0, 2).cast(pl.Int32, strict=False) - first_day.month
    year = first_day.year + (apart < -6).cast(pl.Int32) - (apart > 6).cast(pl.Int32)
    return pl.format("{}-{}-{}T{}", year, raw.str.slice(0, 2), raw.str.slice(2, 2), raw.str.slice(5))


DATE = rb"\d{4}-?\d\d-?\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,6})?"
# torchrun `[default3]:` and `[rank3]:`; SLURM's `srun -l` `1: `; Primus `[20250528 09:03:28][rank-31/32][INFO ] : `;
# DeepSpeed's launcher `node1: ` and logger `[2024-06-21 10:50:42,168] [INFO] [logging.py:96:log_dist] [Rank 0] `;
# Argonne's `[2024-06-21 10:50:42][INFO][training:1609] - `; nemo-run `ain_fp8_mx/0 `;
# torchtitan `[titan] 2025-06-01 10:00:00,123 - root - INFO - `
_PART = (
    rb"\[(?:default|rank|Rank |node|titan|%s|[\w.-]+:\d+|rank-\d+/\d+|[A-Z]+ *|-*[\w.-]+\.py:\d+(?::\w+)?)\d*\]"
    rb"(?: - (?=[ \[i])|:? ?)|%s - [\w.]+ - [A-Z]+ - |\d{1,6}: |[A-Za-z][\w.-]*\d: (?=\S)|: (?=\s*\S)|"
    rb"[\w.-]{1,60}/\d{1,6} (?= )" % (DATE, DATE)
)
_LAUNCHED = re.compile(rb"\A(?:%s)*" % _PART)
TIME = re.compile(rb"(?:\[|(?:^|[\]:] ?)(?=%s - ))(%s)(?:\]| - )" % (DATE, DATE))
# a number alone is a rank only before a blank: `grep -n` puts none there
RANK = re.compile(rb"(?:\[(?:rank-?|default|[\w.-]+:)?|rank-?|default|(?=\d+: ))(\d+)(?:/\d+)?\]?:")


def line_before(data: bytes, position: int, within: int = 400) -> bytes:
    """What stands before a position on its line, as far as it is looked for."""
    first = max(0, position - within)
    return data[max(first, data.rfind(b"\n", first, position) + 1) : position]


def is_glued(before: bytes) -> bool:
    """Whether what follows this text on its line was written behind another record."""
    rest = _LAUNCHED.sub(b"", before, count=1)
    return bool(rest) and not rest[-1:].isspace()


def is_plain(before: bytes) -> bool:
    """Whether a row has nothing before it on its line but what a launcher or a logger puts there."""
    rest = _LAUNCHED.sub(b"", before, count=1)
    return bool(PREFIX.match(before)) or not re.search(rb"\w", re.sub(DATE, b"", rest))


def time_before(window: Window, position: int) -> str | None:
    """The last date in brackets before a position on its line, as ISO 8601."""
    found = TIME.findall(line_before(window.data, position))
    return iso_of(found[-1]) if found else None


def iso_of(date: bytes) -> str:
    """`20250528 09:03:28` and `2025-05-28 09:03:28,123` as ISO 8601."""
    return pl.select(iso_dates(pl.lit(date.decode()))).item()  # type: ignore[no-any-return]


def iso_dates(dates: pl.Expr) -> pl.Expr:
    """The column of `iso_of`."""
    plain = dates.str.replace(",", ".", literal=True).str.replace(r"^(\d{4})(\d\d)(\d\d)", "$1-$2-$3")
    return plain.str.slice(0, 10) + "T" + plain.str.slice(11)
