"""Turns the decimal digits in the same columns of many rows into numbers, eight digits of every row at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

type Positions = NDArray[np.int64]
type Mask = NDArray[np.bool_]
type Rows = NDArray[np.uint8]

PIECE = 8  # digits that a word holds
_HALVES = 0x0F0F_0F0F_0F0F_0F0F
# of neighbours the first has the higher place: pairs, then fours, then all eight, each in a lane of its own
_LANES: list[tuple[type[np.unsignedinteger[Any]], int]] = [(np.uint16, 10), (np.uint32, 100)]
_FOURS = 10_000
_DECIMALS = 3  # which most numbers have: then the point stands where its byte can pass for a digit before the fours
_POINTED = 1000


@dataclass(frozen=True)
class Digits:
    """Up to eight digits of a number: where they end in the row, how many stand before the point, how many behind."""

    end: int
    whole: int
    decimals: int = 0

    @property
    def begin(self) -> int:
        """Where the first of them stands."""
        return self.end - self.whole - (self.decimals + 1 if self.decimals else 0)


def split_number(begin: int, whole: int, decimals: int) -> tuple[Digits, ...]:
    """The pieces of a number with so many digits whose first stands at `begin`, the lowest places first."""
    pieces = []
    end = begin + whole + (decimals + 1 if decimals else 0)
    while whole + decimals > PIECE:
        behind = min(decimals, PIECE)
        pieces.append(Digits(end, PIECE - behind, behind))
        decimals -= behind
        whole -= PIECE - behind
        end -= PIECE + (behind > 0 and decimals == 0)  # the point is passed with the last decimal
    pieces.append(Digits(end, whole, decimals))
    return tuple(pieces)


class DigitReader:
    """Reads numbers, each given by its pieces, out of every row of a table of bytes."""

    def __init__(self, numbers: Sequence[tuple[Digits, ...]]) -> None:
        self.count = len(numbers)
        self._pieces = [pieces[0] for pieces in numbers]
        self._joins: list[tuple[int, int, int]] = []  # (number, piece, factor) of the higher places
        for index, pieces in enumerate(numbers):
            for place, piece in enumerate(pieces[1:], start=1):
                self._joins.append((index, len(self._pieces), 10 ** (PIECE * place)))
                self._pieces.append(piece)
        words = [_word_of(piece) for piece in self._pieces]
        self._ends = [piece.end for piece in self._pieces]
        self._masks = [np.uint64(word.mask) for word in words]
        # one byte earlier, to close the gap that the point leaves
        self._early = [(index, np.uint64(word.before)) for index, word in enumerate(words) if word.before]
        starts = [index for index, word in enumerate(words) if not index or word.fours != words[index - 1].fours]
        self._fours = [
            (slice(begin, end), np.uint64(1 + (words[begin].fours << 32)))
            for begin, end in pairwise([*starts, len(words)])
        ]

    def read(self, text: Rows) -> NDArray[np.int64]:
        """(numbers, rows): the digits of each as one whole number, without its point.

        `text` (rows, bytes) holds ASCII digits in the columns of the digits; it is C-ordered, and every piece ends at
        least 9 bytes behind the beginning of its row.
        """
        rows, width = text.shape
        words = np.empty((len(self._pieces), rows), np.uint64)
        for word, end, mask in zip(words, self._ends, self._masks, strict=True):
            word[:] = np.ndarray((rows,), "<u8", text, end - PIECE, (width,))
            word &= mask
        for index, mask in self._early:
            words[index] |= np.ndarray((rows,), "<u8", text, self._ends[index] - PIECE - 1, (width,)) & mask
        for kind, places in _LANES:
            lanes, half = words.view(kind), 4 * np.dtype(kind).itemsize
            lanes *= kind(1 + (places << half))
            lanes >>= kind(half)
        for part, factor in self._fours:
            words[part] *= factor
        words >>= np.uint64(32)
        read = words.view(np.int64)
        for number, piece_at, places in self._joins:
            read[number] += read[piece_at] * places
        return read[: self.count]


class _Word(NamedTuple):
    """How the eight bytes before the end of some digits make a number: which bits count, which of those that stand one
    byte earlier, and what the first four of the eight places are worth."""

    mask: int
    before: int
    fours: int


def _word_of(piece: Digits) -> _Word:
    whole, decimals = piece.whole, piece.decimals
    if not decimals:
        return _Word(_high(whole), 0, _FOURS)
    if decimals == _DECIMALS and whole <= PIECE - _DECIMALS - 1:
        return _Word(_high(decimals) | (_high(whole + decimals + 1) & ~_high(decimals + 1)), 0, _POINTED)
    return _Word(_high(decimals), _high(whole + decimals) & ~_high(decimals), _FOURS)


def _high(count: int) -> int:
    """The values of the last `count` digits of a little-endian word: of an ASCII digit, that is its lower half."""
    return _HALVES & ~((1 << (8 * (8 - count))) - 1)
