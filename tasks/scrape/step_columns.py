"""Reads the many step lines that look alike as columns: positions by comma, numbers by `digits`, no loop over lines.

A `Template` is what all lines of a run share: the keys, the decimals, the length of the prefix. A line that is not
exactly of that form is left to the grammar in `step_line`, so nothing is ever read here that it would not read.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tasks.scrape.digits import Mask, Positions, Words, find_dot, match_literal, parse_digits, parse_fixed, view_words
from tasks.scrape.prefix import prefix_of_step
from tasks.scrape.step_line import StepLine
from tasks.scrape.window import Window

_HEAD = b"completed step: "
_TIME_AT, _TIME_LENGTH = 1, 20  # `0418 00:55:39.221671` in `I0418 00:55:39.221671 `
_SPACES = np.isin(np.arange(256), list(b" \t\r\n"))
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
    if line.keys[:1] != ("seconds",) or not decimals[-1] or any(d is None or d > 7 for d in decimals):
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


def find_candidates(window: Window) -> tuple[Words, Positions, Positions]:
    """(words, commas, candidates): every comma's position, and which of them are followed by ` seconds`."""
    words = view_words(window.data)
    commas = np.flatnonzero(np.frombuffer(window.data, np.uint8) == ord(","))
    inside = commas[: np.searchsorted(commas, len(window.data) - 16)]
    word = np.uint64(int.from_bytes(b" seconds", "little"))
    return words, commas, np.flatnonzero(words[inside + 1] == word)


def read_columns(
    window: Window, template: Template, words: Words, commas: Positions, candidates: Positions
) -> tuple[StepColumns, Mask]:
    """The rows of the candidates that fit the template, and which of the candidates those are."""
    text = np.frombuffer(window.data, np.uint8)
    count = len(template.keys)
    fits = candidates + count <= len(commas)
    first = commas[candidates]
    fits &= (first >= MARGIN) & (commas[np.minimum(candidates + count - 1, len(commas) - 1)] < len(text) - MARGIN)
    chosen = np.flatnonzero(fits)
    picked, first = candidates[chosen], first[chosen]
    good = np.ones(len(chosen), np.bool_)

    start, step, step_good = _read_step(words, first)
    good &= step_good & (start >= window.start) & (start < window.limit)
    values: dict[str, NDArray[np.float64] | NDArray[np.int64]] = {}
    end = first
    for index, (key, literal, decimals) in enumerate(
        zip(template.keys, template.literals, template.decimals, strict=True)
    ):
        comma = commas[picked + index] if index else first
        good &= _match(words, comma, literal)
        begin = comma + len(literal)
        if index + 1 < count:
            end = commas[picked + index + 1]
        else:
            dot, dot_good = find_dot(words, begin)
            end = dot + 1 + decimals
            good &= dot_good & _SPACES[text[end]]
        if decimals:
            values[key], number_good = parse_fixed(words, begin, end, decimals)
        else:
            values[key], number_good = parse_digits(words, begin, end)
        good &= number_good
    times = None
    record = start
    if template.tail:
        record = start - template.prefix_length
        good &= text[record] == template.severity
        good &= match_literal(words, record + _TIME_AT + _TIME_LENGTH, template.tail)
        times = text[(record[good] + _TIME_AT)[:, None] + np.arange(_TIME_LENGTH)]
    used = np.zeros(len(candidates), np.bool_)
    used[chosen[good]] = True
    kept = {key: value[good] for key, value in values.items()}
    return StepColumns(start[good], end[good], record[good], step[good], kept, times), used


def _read_step(words: Words, comma: Positions) -> tuple[Positions, NDArray[np.int64], Mask]:
    """Where `completed` starts before the comma after the step, the step, and whether that is so (up to 7 digits)."""
    length = np.zeros(len(comma), np.int64)
    space = np.uint64(int.from_bytes(b"d step: ", "little"))
    for digits in range(1, 8):
        length[words[comma - digits - 8] == space] = digits
    begin = comma - np.maximum(length, 1)
    step, good = parse_digits(words, begin, comma)
    start = begin - len(_HEAD)
    return start, step, good & (length > 0) & match_literal(words, start, _HEAD)


def _match(words: Words, position: Positions, literal: bytes) -> Mask:
    if len(literal) >= 8:
        return match_literal(words, position, literal)
    mask = np.uint64((1 << 8 * len(literal)) - 1)
    found: Mask = (words[position] & mask) == np.uint64(int.from_bytes(literal, "little"))
    return found
