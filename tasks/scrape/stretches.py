"""Tells which stretches of a window lie between the step lines that were read, and what in them looks like one more."""

import re
from collections.abc import Iterable, Iterator

import numpy as np

from tasks.scrape.digits import Positions
from tasks.scrape.step_columns import StepColumns
from tasks.scrape.step_line import LOOSE
from tasks.scrape.window import CONTEXT, Window

type Span = tuple[Positions, Positions]  # where lines begin and end
type Gaps = list[tuple[int, int]]


def starts_in(pattern: re.Pattern[bytes], window: Window, begin: int, end: int) -> Iterator[int]:
    """Where the matches in a stretch start that belong to the window."""
    for match in pattern.finditer(window.data, begin, min(end, window.limit + CONTEXT)):
        if match.start() < window.limit:
            yield match.start()


def loose_in(window: Window, gaps: Gaps) -> Iterator[int]:
    """The positions in the gaps of what looks like a step line."""
    return (position for gap in gaps for position in starts_in(LOOSE, window, *gap))


def size_of(gaps: Gaps, window: Window) -> int:
    """The bytes in gaps that belong to the window."""
    return sum(min(end, window.limit) - begin for begin, end in gaps)


def spans_of(columns: Iterable[StepColumns]) -> list[Span]:
    return [(some.record, some.end) for some in columns]


def find_gaps(spans: list[Span], window: Window) -> Gaps:
    """What lies between the spans of a window and is more than a line break."""
    size = len(window.data)
    if not spans:
        return [(window.start, size)] if window.start < window.limit else []
    starts, ends = spans[0]
    if len(spans) > 1:
        starts, ends = (np.concatenate([span[side] for span in spans]) for side in (0, 1))
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
    begins = np.concatenate([[window.start], ends])
    stops = np.concatenate([starts, [size]])
    wide = stops - begins > 2
    wide[-1] = begins[-1] < window.limit
    return list(zip(begins[wide].tolist(), stops[wide].tolist(), strict=True))
