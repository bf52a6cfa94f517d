"""Finds the step lines of MaxText's form that lost their head: they are told as unread."""

import re
from bisect import bisect_left
from collections.abc import Iterator

from tasks.scrape.stretches import starts_in
from tasks.scrape.window import Window

# what stands in every step line behind its head
_BODY = re.compile(rb"(?:TFLOP|Tokens)/s/device:\s{1,9}\d|total_weights:\s{1,9}\d|perplexity:\s{1,9}\d")
_BODIES = (b"/s/device:", b"total_weights:", b"perplexity:")  # one of these stands in each of its matches
_ORDER = (b"TF", b"To", b"to", b"pe")  # how they follow one another in a row
HEAD_WITHIN = 200  # bytes


def headless_in(window: Window, gaps: list[tuple[int, int]], heads: list[int]) -> Iterator[int]:
    """Where bodies without a head stand in the gaps, once per line.

    heads: where the heads stand that were not read, ascending; what stands soon after one is its own.
    """
    counted, order = -HEAD_WITHIN, 0
    # what begins a later window may belong to a head in the one before
    first = window.start + (HEAD_WITHIN if window.start else 0)
    for begin, end in gaps:
        if not any(window.data.find(text, begin, end) >= 0 for text in _BODIES):
            continue
        for position in starts_in(_BODY, window, max(begin, first), end):
            index = bisect_left(heads, position) - 1
            head = heads[index] if index >= 0 else -HEAD_WITHIN
            field = _ORDER.index(window.data[position : position + 2])
            # the later fields of a row belong to those before them
            follows = position - counted <= HEAD_WITHIN and field > order
            if not follows and position - head > HEAD_WITHIN:
                yield position
            counted, order = position, field
