"""Turns the decimal digits in the same columns of many rows into numbers, eight digits of every row at a time."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

type Positions = NDArray[np.int64]
type Mask = NDArray[np.bool_]
type Rows = NDArray[np.uint8]

PIECE = 8  # digits that a word holds
_HALVES = 0x0F0F_0F0F_0F0F_0F0F
# of neighbours the first has the higher place: pairs, then fours, then all eight
_JOIN = [(np.uint64(1 + (10**places << (8 * places))), np.uint64(8 * places)) for places in (1, 2, 4)]
_KEEP = [np.uint64(0x00FF_00FF_00FF_00FF), np.uint64(0x0000_FFFF_0000_FFFF)]


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
        behind = [_high(piece.decimals or piece.whole) for piece in self._pieces]
        before = [
            _high(piece.decimals + piece.whole) & ~_high(piece.decimals) if piece.decimals else 0
            for piece in self._pieces
        ]
        self._behind = np.array(behind, np.uint64)[:, None]
        self._before = np.array(before, np.uint64)[:, None]

    def read(self, text: Rows) -> NDArray[np.int64]:
        """(numbers, rows): the digits of each as one whole number, without its point.

        `text` (rows, bytes) holds ASCII digits in the columns of the digits; it is C-ordered, and every piece ends at
        least 9 bytes behind the beginning of its row.
        """
        rows, width = text.shape
        words = np.empty((len(self._pieces), rows), np.uint64)
        shifted = np.zeros_like(words)
        for index, piece in enumerate(self._pieces):
            words[index] = np.ndarray((rows,), "<u8", text, piece.end - 8, (width,))
            if piece.decimals:  # one byte earlier, to close the gap that the point leaves
                shifted[index] = np.ndarray((rows,), "<u8", text, piece.end - 9, (width,))
        words &= self._behind
        shifted &= self._before
        words |= shifted
        for step, (factor, shift) in enumerate(_JOIN):
            words *= factor
            words >>= shift
            if step < len(_KEEP):
                words &= _KEEP[step]
        read = words.view(np.int64)
        for number, piece_at, places in self._joins:
            read[number] += read[piece_at] * places
        return read[: self.count]


def _high(count: int) -> int:
    """The values of the last `count` digits of a little-endian word: of an ASCII digit, that is its lower half."""
    return _HALVES & ~((1 << (8 * (8 - count))) - 1)
