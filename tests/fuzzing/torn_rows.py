"""Tears one row of a sample log: cuts it, splices other text into it, or folds it; and judges the reading.

A row is the line of a step. All damage is deterministic by its number.
"""

import math
import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tasks.records.log_reading import RunReading
from tasks.scrape.read_log import scrape_text
from tasks.scrape.window import LogFormatError

SAMPLES = Path(__file__).parents[1] / "samples"
LOGS = (
    "logs/maxtext.txt", "logs/megatron.txt", "logs/torchtitan.txt", "logs/nemo.txt", "maxview/13_eval-nnx.txt",
    "maxview/dies-nnx.txt",
)  # fmt: skip
# the start of a row, up to the step's number
HEAD = re.compile(
    rb"completed step: \d+|iteration +\d+/|(?<!validate )(?<!\w)step: +\d+|Training epoch \d+, iteration \d+/\d+"
)
_VALUE = re.compile(rb"(?<=[ =(])[-+]?\d[\d.,]*(?:[eE][-+]?\d+)?")
_OWN = ("time", "line", "offset")  # columns that are not numbers of the row


@dataclass(frozen=True)
class Torn:
    """A log with one torn row. kind: how the row was torn; line: its number in the whole log."""

    log: str
    kind: str
    line: int
    whole: bytes
    data: bytes


def _cut_end(row: bytes, head: int, draw: random.Random, _: list[bytes]) -> bytes:
    return row[: draw.randrange(head, len(row))]


def _cut_end_and_break(row: bytes, head: int, draw: random.Random, lines: list[bytes]) -> bytes:
    """The next line follows at once; the maker removes the line break at the mark."""
    return _cut_end(row, head, draw, lines) + _GLUE


def _cut_begin(row: bytes, head: int, draw: random.Random, _: list[bytes]) -> bytes:
    return row[draw.randrange(1, head) :]


def _splice_line(row: bytes, head: int, draw: random.Random, lines: list[bytes]) -> bytes:
    place = draw.randrange(head, len(row))
    return row[:place] + draw.choice([line for line in lines if line.strip()]) + b"\n" + row[place:]


def _splice_word(row: bytes, head: int, draw: random.Random, _: list[bytes]) -> bytes:
    values = [match.span() for match in _VALUE.finditer(row, head)]
    begin, end = draw.choice([span for span in values if span[1] - span[0] > 1])
    place = draw.randrange(begin + 1, end)
    return row[:place] + draw.choice((b"WARNING: slow", b" INFO ", b"warn", b"[rank3]: ")) + row[place:]


def _double_letter(row: bytes, head: int, draw: random.Random, _: list[bytes]) -> bytes:
    """`memory:` becomes `mmemory:`."""
    place = draw.choice([match.start() for match in re.finditer(rb"[A-Za-z]", row[head:])]) + head
    return row[:place] + row[place : place + 1] + row[place:]


def _fold(row: bytes, head: int, draw: random.Random, _: list[bytes]) -> bytes:
    """The values continue on the next lines, which are indented."""
    indent = b"\n" + b" " * draw.choice((0, 0, 1, 4, 8))
    places = [match.start() for match in re.finditer(rb" ", row[head:])]
    chosen = sorted(head + place for place in draw.sample(places, min(len(places), draw.choice((1, 1, 2, 4)))))
    parts = [row[begin:end] for begin, end in zip([0, *chosen], [*chosen, len(row)], strict=True)]
    return indent.join(parts)


def _fold_at_width(row: bytes, head: int, draw: random.Random, _: list[bytes]) -> bytes:
    """As a terminal or a text box folds a line, also inside a number."""
    width = draw.randrange(head + 1, max(head + 2, len(row)))
    return b"\n".join(row[begin : begin + width] for begin in range(0, len(row), width))


def _indent(row: bytes, _: int, draw: random.Random, __: list[bytes]) -> bytes:
    return draw.choice((b"    ", b"\t", b"> ", b"    | ", b"      out: ")) + row


FOLD_ALL = "every line folded at a width"
_GLUE = b"\0glue\0"
Tear = Callable[[bytes, int, random.Random, list[bytes]], bytes]
TEARS: Mapping[str, Tear] = {
    "cut at its end": _cut_end, "cut at its end and its line break": _cut_end_and_break,
    "cut at its beginning": _cut_begin, "a line spliced in": _splice_line, "a word in a value": _splice_word,
    "a doubled letter": _double_letter, "folded at blanks": _fold, "folded at a width": _fold_at_width,
    "indented": _indent, FOLD_ALL: lambda row, *_: row,
}  # fmt: skip


def tear_row(number: int) -> Torn:
    """Return the sample log of this number with one torn row."""
    draw = random.Random(f"torn {number}")
    log, (kind, tear) = LOGS[number % len(LOGS)], list(TEARS.items())[number // len(LOGS) % len(TEARS)]
    lines = (SAMPLES / log).read_bytes().split(b"\n")
    if draw.random() < 0.5:  # the first rows alone, as in a report of a bug, without the logger's prefix
        rows = [index for index, line in enumerate(lines) if HEAD.search(line)]
        lines = [*lines[: rows[draw.randrange(1, min(4, len(rows)))] + 1], b""]
        if draw.random() < 0.5:
            lines = [line[match.start() :] if (match := HEAD.search(line)) else line for line in lines]
    whole = b"\n".join(lines)
    index = draw.choice([index for index, line in enumerate(lines) if HEAD.search(line)])
    head = HEAD.search(lines[index])
    assert head is not None
    torn = tear(lines[index], head.end(), draw, lines)
    data = b"\n".join([*lines[:index], torn, *lines[index + 1 :]]).replace(_GLUE + b"\n", b"")
    if kind == FOLD_ALL:
        width = draw.randrange(40, 240)
        folded = (line[begin : begin + width] for line in lines for begin in range(0, max(len(line), 1), width))
        data = b"\n".join(folded)
    return Torn(log, kind, index + 1, whole, data)


def judge_torn(torn: Torn) -> Iterator[str]:
    """Yield "wrong: …" for a number that was not printed for its step, "silent: …" for a loss that is not reported."""
    try:
        runs = scrape_text(torn.data, name="torn").runs
    except LogFormatError:
        return
    written, found = _written(torn.whole), {}
    for run in runs:
        for step, numbers in _numbers(run).items():
            found[step] = found.get(step, {}) | numbers
            for column, value in numbers.items():
                if value != written.get(step, {}).get(column):
                    yield f"wrong: step {step}, {column} {value}; printed: {written.get(step, {}).get(column)}"
    told = any(run.coverage.step_lines_seen > run.coverage.step_lines_parsed or run.coverage.unread for run in runs)
    lost = [
        (step, column) for step, numbers in written.items() for column in numbers if column not in found.get(step, {})
    ]
    if lost and not told:
        steps = sorted({step for step, _ in lost} - set(found))
        yield f"silent: {f'steps {steps}' if steps else f'fields {lost[:3]}'}"


@cache
def _written(whole: bytes) -> dict[int, dict[str, str]]:
    """Return the numbers of a whole log: many torn ones have the same."""
    (run,) = scrape_text(whole, name="whole").runs
    return _numbers(run)


def _numbers(run: RunReading) -> dict[int, dict[str, str]]:
    """Return step → column → value as text, without absent values."""
    return {
        row["step"]: {
            column: repr(value) for column, value in row.items()
            if value is not None and column not in _OWN and not (isinstance(value, float) and math.isnan(value))
        }
        for row in run.steps.iter_rows(named=True)
    }  # fmt: skip
