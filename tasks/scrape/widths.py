"""Reads step lines that share their keys and decimals but not the widths of their numbers: positions by comma.

A `Template` is what such lines share. A line that is not exactly of that form is left to the grammar in `step_line`, so
nothing is ever read here that it would not read. Lines that share a layout are read at a quarter of the cost by `rows`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from tasks.scrape.digits import Mask, Positions, Rows
from tasks.scrape.iso import PRINTED, iso_times
from tasks.scrape.layout import INTEGERS, TIME
from tasks.scrape.prefix import prefix_of_step
from tasks.scrape.step_columns import Column, StepColumns
from tasks.scrape.step_line import ENDS, StepLine
from tasks.scrape.window import Window
from tasks.scrape.words import count_after_space, find_dot, gather, match_literal, read_fixed, read_whole

_HEAD = b"completed step: "
_ENDS = np.isin(np.arange(256), list(ENDS))
MARGIN = 512  # bytes around a line that the columns may look at
FEW_IN = 4 * MARGIN  # bytes, if there is no more than one line in so many


@dataclass(frozen=True)
class Template:
    """What the lines of a run have in common. `tail` is the prefix after its time; empty without a prefix."""

    keys: tuple[str, ...]
    literals: tuple[bytes, ...]  # `, seconds: ` and so on
    decimals: tuple[int, ...]  # 0 for whole numbers
    severity: int
    tail: bytes

    @property
    def prefix_length(self) -> int:
        """Bytes from the prefix to `completed`."""
        return TIME + PRINTED + len(self.tail) if self.tail else 0


def template_of(data: bytes, line: StepLine) -> Template | None:
    """The template of a line, or None if lines of its form cannot be read as columns."""
    decimals = [field.decimals for field in line.fields]
    if not decimals or not decimals[-1] or any(d is None or d > 6 for d in decimals):
        return None
    literals = tuple(b", %s: " % key.encode() for key in line.keys)
    prefix = prefix_of_step(data, line.start)
    tail = data[prefix.start + TIME + PRINTED : line.start] if prefix else b""
    if prefix and len(tail) < 8:
        return None
    return Template(
        keys=line.keys,
        literals=literals,
        decimals=tuple(d or 0 for d in decimals),
        severity=data[prefix.start] if prefix else 0,
        tail=tail,
    )


def read_widths(window: Window, template: Template, starts: Positions) -> tuple[StepColumns, Mask]:
    """The lines whose `completed` stands at these positions and that fit the template, and which those are."""
    data, text = window.data, np.frombuffer(window.data, np.uint8)
    count = len(template.keys)
    commas = _find_commas(text, starts)
    first = np.searchsorted(commas, starts)  # of the commas of each line, which stands behind the step
    fits = (starts >= MARGIN) & (first + count <= len(commas))
    last = commas[np.minimum(first + count - 1, len(commas) - 1)] if len(commas) else first
    fits &= last < len(text) - MARGIN
    chosen = np.flatnonzero(fits)
    picked = first[chosen]
    end = commas[picked] if len(commas) else picked
    start, step, good = _read_step(data, end)
    good &= start == starts[chosen]
    values: dict[str, Column] = {}
    for index, key in enumerate(template.keys):
        literal, decimals = template.literals[index], template.decimals[index]
        good &= match_literal(data, end, literal)
        begin = end + len(literal)
        if index + 1 < count:
            end = commas[picked + index + 1]
        else:
            dot, dot_good = find_dot(data, begin)
            end = dot + 1 + decimals
            good &= dot_good & _ENDS[text[end]]
        values[key], number_good = read_fixed(data, begin, end, decimals) if decimals else read_whole(data, begin, end)
        if not decimals and key not in INTEGERS:
            values[key] = values[key].astype(np.float64)
        good &= number_good
    record, times = start, None
    if not template.tail:
        good &= text[start - 2] != ord("]")  # a logger's prefix would be lost
    else:
        record = start - template.prefix_length
        good &= text[record] == template.severity
        good &= match_literal(data, record + TIME + PRINTED, template.tail)
        # the 20 characters of the time stand in the middle of these 24
        times = iso_times(gather(data, record[good], 3).view(np.uint8), TIME)
    used = np.zeros(len(starts), np.bool_)
    used[chosen[good]] = True
    start = start[good]
    columns = StepColumns(
        keys=template.keys,
        record=record[good],
        start=start,
        end=end[good],
        line=window.line + np.searchsorted(window.breaks, start),
        step=step[good],
        values={key: value[good] for key, value in values.items()},
        times=times,
    )
    return columns, used


def _find_commas(text: Rows, starts: Positions) -> Positions:
    """Where the commas stand: all of them, or where the lines are few, those that are not far behind their starts."""
    if len(starts) * FEW_IN > len(text) or len(text) < MARGIN:
        return np.flatnonzero(text == ord(","))
    begins = np.minimum(starts, len(text) - MARGIN)
    row, column = np.nonzero(sliding_window_view(text, MARGIN)[begins] == ord(","))
    return np.unique(begins[row] + column)


def _read_step(data: bytes, comma: Positions) -> tuple[Positions, NDArray[np.int64], Mask]:
    """Where `completed` starts before the comma after the step, the step, and whether that is so (up to 7 digits)."""
    begin = comma - count_after_space(data, comma)
    step, good = read_whole(data, begin, comma)
    start = begin - len(_HEAD)
    return start, step, good & match_literal(data, start, _HEAD)
