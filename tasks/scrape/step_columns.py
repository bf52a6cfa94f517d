"""Reads the many step lines that look alike as columns: positions by comma, numbers by `digits`, no loop over lines.

A `Template` is what all lines of a run share: the keys, the decimals, the length of the prefix. A line that is not
exactly of that form is left to the grammar in `step_line`, so nothing is ever read here that it would not read.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tasks.scrape.digits import (
    Mask,
    Positions,
    count_after_space,
    find_dot,
    gather,
    match_literal,
    read_fixed,
    read_whole,
)
from tasks.scrape.prefix import prefix_of_step
from tasks.scrape.step_line import ENDS, StepLine
from tasks.scrape.window import Window

_HEAD = b"completed step: "
_TIME_AT, _TIME_LENGTH = 1, 20  # `0418 00:55:39.221671` in `I0418 00:55:39.221671 `
_ENDS = np.isin(np.arange(256), list(ENDS))
MARGIN = 512  # bytes around a line that the columns may look at


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
        return _TIME_AT + _TIME_LENGTH + len(self.tail) if self.tail else 0


@dataclass(frozen=True)
class StepColumns:
    """The step lines of a window that fit a template, ascending. Positions are those in the window's data."""

    start: Positions  # of `completed`
    end: Positions  # of the last value
    record: Positions  # of the prefix, or of `completed` without one
    step: NDArray[np.int64]
    values: dict[str, NDArray[np.float64] | NDArray[np.int64]]
    times: NDArray[np.uint8] | None  # (rows, 20) characters


def template_of(data: bytes, line: StepLine) -> Template | None:
    """The template of a line, or None if lines of its form cannot be read as columns."""
    decimals = [field.decimals for field in line.fields]
    if line.keys[:1] != ("seconds",) or not decimals[-1] or any(d is None or d > 6 for d in decimals):
        return None
    literals = tuple(b", %s: " % key.encode() for key in line.keys)
    prefix = prefix_of_step(data, line.start)
    tail = data[prefix.start + _TIME_AT + _TIME_LENGTH : line.start] if prefix else b""
    return Template(
        keys=line.keys,
        literals=literals,
        decimals=tuple(d or 0 for d in decimals),
        severity=data[prefix.start] if prefix else 0,
        tail=tail if len(tail) >= 8 else b"",
    )


def find_candidates(window: Window) -> tuple[Positions, Positions]:
    """(commas, candidates): every comma's position, and which of the window's own commas stand before ` seconds`."""
    commas = np.flatnonzero(np.frombuffer(window.data, np.uint8) == ord(","))
    # the comma stands after the step: at most this far behind the start of the line
    own = np.searchsorted(commas, [window.start, min(window.limit + len(_HEAD) + 8, len(window.data) - MARGIN)])
    return commas, own[0] + np.flatnonzero(match_literal(window.data, commas[own[0] : own[1]] + 1, b" seconds"))


def read_columns(
    window: Window, template: Template, commas: Positions, candidates: Positions
) -> tuple[StepColumns, Mask]:
    """The rows of the candidates that fit the template, and which of the candidates those are."""
    data, text = window.data, np.frombuffer(window.data, np.uint8)
    count = len(template.keys)
    last = commas[np.minimum(candidates + count - 1, len(commas) - 1)]
    fits = (candidates + count <= len(commas)) & (commas[candidates] >= MARGIN) & (last < len(text) - MARGIN)
    chosen = np.flatnonzero(fits)
    picked = candidates[chosen]
    end = commas[picked]

    start, step, good = _read_step(data, end)
    good &= (start >= window.start) & (start < window.limit)
    values: dict[str, NDArray[np.float64] | NDArray[np.int64]] = {}
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
        if decimals:
            values[key], number_good = read_fixed(data, begin, end, decimals)
        else:
            values[key], number_good = read_whole(data, begin, end)
        good &= number_good
    record, times = start, None
    if template.tail:
        record = start - template.prefix_length
        good &= text[record] == template.severity
        good &= match_literal(data, record + _TIME_AT + _TIME_LENGTH, template.tail)
        # the 20 characters of the time stand in the middle of these 24
        times = gather(data, record[good], 3).view(np.uint8)[:, _TIME_AT : _TIME_AT + _TIME_LENGTH]
    used = np.zeros(len(candidates), np.bool_)
    used[chosen[good]] = True
    kept = {key: value[good] for key, value in values.items()}
    return StepColumns(start[good], end[good], record[good], step[good], kept, times), used


def _read_step(data: bytes, comma: Positions) -> tuple[Positions, NDArray[np.int64], Mask]:
    """Where `completed` starts before the comma after the step, the step, and whether that is so (up to 7 digits)."""
    begin = comma - count_after_space(data, comma)
    step, good = read_whole(data, begin, comma)
    start = begin - len(_HEAD)
    return start, step, good & match_literal(data, start, _HEAD)
