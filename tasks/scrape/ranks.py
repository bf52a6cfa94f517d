"""Knows what launchers put before the lines of each rank: `[default3]:`, `[node:3]:`, `1:`, `[time][rank-3/8]…`."""

import re

from tasks.scrape.window import Window

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
PREFIX = re.compile(rb"(?:%s)*" % _PART)
_TIME = re.compile(rb"\[(%s)\]|(?:^|[\]:] ?)(%s) - " % (DATE, DATE))
# a number alone is a rank only before a blank: `grep -n` puts none there
_RANK = re.compile(rb"(?:\[(?:rank-?|default|[\w.-]+:)?|rank-?|default|(?=\d+: ))(\d+)(?:/\d+)?\]?:")
LOOK_BACK = 400


def line_begin(data: bytes, position: int) -> int:
    """Where the line that holds a position begins, as far as it is looked for."""
    first = max(0, position - LOOK_BACK)
    return max(first, data.rfind(b"\n", first, position) + 1)


def is_glued(data: bytes, position: int) -> bool:
    """Whether what starts at a position was written behind another record on the same line."""
    before = data[line_begin(data, position) : position]
    _, rest = rank_mark(before)
    return bool(rest) and not rest[-1:].isspace()


def rank_mark(line: bytes) -> tuple[bytes, bytes]:
    """(the launcher's prefix of a line, the rest of it)."""
    found = PREFIX.match(line)
    end = found.end() if found else 0
    return line[:end], line[end:]


def time_before(window: Window, position: int) -> str | None:
    """The last date in brackets before a position on its line, as ISO 8601."""
    found = _TIME.findall(window.data[line_begin(window.data, position) : position])
    return iso_of(found[-1][0] or found[-1][1]) if found else None


def iso_of(date: bytes) -> str:
    """`20250528 09:03:28` and `2025-05-28 09:03:28,123` as ISO 8601."""
    text = date.decode().replace(",", ".")
    if text[4] != "-":
        text = f"{text[:4]}-{text[4:6]}-{text[6:]}"
    return text[:10] + "T" + text[11:]


def rank_of(data: bytes, position: int) -> int | None:
    """The rank in the launcher's prefix of the line that holds a position; None if it names none."""
    found = _RANK.match(data, line_begin(data, position), position)
    return int(found[1]) if found else None
