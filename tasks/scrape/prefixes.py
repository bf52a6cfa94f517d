"""Reads the line prefixes of loggers and launchers, e.g. absl's `I0418 00:55:39.221671 1351 x.py:196] `, and dates."""

import re
from datetime import UTC, datetime

import polars as pl

from tasks.scrape.window import Window

# absl's prefix: severity, MMDD, time of day, thread, source file and line; it has no year
ABSL = rb"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ [\w.+-]+:\d+\] ?"
PREFIX = re.compile(rb"[IWEF](\d{4} \d\d:\d\d:\d\d\.\d{6}) +\d+ ([\w.+-]+:\d+)\] ?")
# ends free text: a line break, the log's end, or the next record in logs that have lost their line breaks
NEXT = (
    rb"\n|\Z|%s|Config param |System Information: |Num_devices: |completed step|XPK End:|EXIT_CODE=|"
    rb"Traceback \(most |Per train step:" % ABSL
)
END = rb"(?=\s*(?:%s))" % NEXT
PREFIX_BYTES = 200  # longer than any prefix


def prefix_before(window: Window, position: int) -> tuple[str | None, str | None]:
    """Return time (`MMDD hh:mm:ss.ffffff`) and source (`file.py:line`) of the last absl prefix before a position.

    Returns (None, None) if the line has no such prefix within PREFIX_BYTES.
    """
    found = list(PREFIX.finditer(line_before(window.data, position, PREFIX_BYTES)))
    return (found[-1][1].decode(), found[-1][2].decode()) if found else (None, None)


def parse_date(text: str) -> datetime | None:
    """Parse the output of `date`: `Sat Apr 18 00:54:24 UTC 2026` or `… 12:54:24 AM UTC 2026`; None if it is invalid.

    The result has a time zone only for UTC and GMT.
    """
    *words, zone, year = text.split()
    clock = "%I:%M:%S %p" if words[-1:] in (["AM"], ["PM"]) else "%H:%M:%S"
    try:
        moment = datetime.strptime(" ".join([*words, year]), f"%a %b %d {clock} %Y")
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if zone in ("UTC", "GMT") else moment


def iso_time(raw: str | None, first_day: datetime | None) -> str | None:
    """Return `0418 00:55:39.221671` as ISO 8601, in the year that makes it nearest to `first_day`.

    first_day: a day of the run, with its year. Returns None if `raw` or `first_day` is None.
    """
    return pl.select(iso_in_year(pl.lit(raw, pl.String), first_day)).item()  # type: ignore[no-any-return]


def iso_in_year(raw: pl.Expr, first_day: datetime | None) -> pl.Expr:
    """Return `iso_time` of the texts in a column."""
    if first_day is None:
        return pl.lit(None, pl.String)
    # a run lasts less than half a year, so a distance of more than six months means another year
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
# a bare number (`1: `) is a rank only with a blank after the colon: line numbers of `grep -n` have no blank
RANK = re.compile(rb"(?:\[(?:rank-?|default|[\w.-]+:)?|rank-?|default|(?=\d+: ))(\d+)(?:/\d+)?\]?:")


def line_begin(data: bytes, position: int, within: int = 400) -> int:
    """Return the index at which the line at `position` begins, but not less than `position - within`."""
    first = max(0, position - within)
    return max(first, data.rfind(b"\n", first, position) + 1)


def line_before(data: bytes, position: int, within: int = 400) -> bytes:
    """Return the text before `position` on its line, at most `within` bytes."""
    return data[line_begin(data, position, within) : position]


def is_glued(before: bytes) -> bool:
    """Whether the text before a record on its line ends with text of another record: not with a prefix or a blank."""
    rest = _LAUNCHED.sub(b"", before, count=1)
    return bool(rest) and not rest[-1:].isspace()


def is_plain(before: bytes) -> bool:
    """Whether the text before a row on its line begins with absl's prefix, or has only prefixes and dates."""
    rest = _LAUNCHED.sub(b"", before, count=1)
    return bool(PREFIX.match(before)) or not re.search(rb"\w", re.sub(DATE, b"", rest))


def time_before(window: Window, position: int) -> str | None:
    """Return the last date in the prefixes before `position` on its line, as ISO 8601; None without a date."""
    found = TIME.findall(line_before(window.data, position))
    return iso_of(found[-1]) if found else None


def iso_of(date: bytes) -> str:
    """Return `20250528 09:03:28` or `2025-05-28 09:03:28,123` as ISO 8601."""
    return pl.select(iso_dates(pl.lit(date.decode()))).item()  # type: ignore[no-any-return]


def iso_dates(dates: pl.Expr) -> pl.Expr:
    """Return `iso_of` of the texts in a column."""
    plain = dates.str.replace(",", ".", literal=True).str.replace(r"^(\d{4})(\d\d)(\d\d)", "$1-$2-$3")
    return plain.str.slice(0, 10) + "T" + plain.str.slice(11)
