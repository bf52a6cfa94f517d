"""Turns decimal digits at any places of a text into numbers at once, eight bytes at a time, as numpy columns.

What costs time is going to each place, so every function here goes there once, for a stretch of bytes.
"""

import numpy as np
from numpy.typing import NDArray

from tasks.scrape.digits import Mask, Positions

type Words = NDArray[np.uint64]

# the least number of so many digits
_LEAST = np.array([0, 0, *(10**places for places in range(1, 8))])
_ALL = np.uint64(0xFFFF_FFFF_FFFF_FFFF)


def _repeat(byte: int) -> np.uint64:
    return np.uint64(int.from_bytes(bytes([byte]) * 8))


def gather(data: bytes, position: Positions, count: int) -> Words:
    """The `count` little-endian words that start at each position (rows, count). Bounds are checked by numpy."""
    size = 8 * count
    # one opaque item of `size` bytes at every offset, overlapping: a view, nothing is copied until it is indexed
    items = np.ndarray((len(data) - size + 1,), f"V{size}", data, strides=(1,))
    return items[position].view("<u8").reshape(len(position), count)


def parse_digits(word: Words, length: Positions) -> tuple[NDArray[np.int64], Mask]:
    """The number in the last `length` bytes of each word, and whether those are 1 to 8 digits and nothing else."""
    good = (length >= 1) & (length <= 8)
    kept = _ALL << ((8 - np.clip(length, 1, 8)) * 8).astype(np.uint64)  # the first bytes stand before the number
    word = (word & kept) | (_repeat(ord("0")) & ~kept)
    good &= (word & _repeat(0xF0)) == _repeat(0x30)
    good &= ((word + _repeat(0x06)) & _repeat(0xF0)) == _repeat(0x30)  # ':' to '?' are no digits
    # pairs, then fours, then all eight: the first byte is the highest digit
    word &= _repeat(0x0F)
    word = (word * np.uint64(10) + (word >> np.uint64(8))) & np.uint64(0x00FF_00FF_00FF_00FF)
    word = (word * np.uint64(100) + (word >> np.uint64(16))) & np.uint64(0x0000_FFFF_0000_FFFF)
    word = (word * np.uint64(10_000) + (word >> np.uint64(32))) & np.uint64(0x0000_0000_FFFF_FFFF)
    return word.astype(np.int64), good


def _begins(value: NDArray[np.int64], length: Positions) -> Mask:
    """Whether a number of so many digits does not begin with a zero, unless that is all of it."""
    return value >= _LEAST[np.clip(length, 0, 8)]


def read_whole(data: bytes, start: Positions, end: Positions) -> tuple[NDArray[np.int64], Mask]:
    """The whole number that fills [start, end), and whether it is one of 1 to 8 digits. `end` ≥ 8."""
    value, good = parse_digits(gather(data, end - 8, 1)[:, 0], end - start)
    return value, good & _begins(value, end - start)


def read_fixed(data: bytes, start: Positions, end: Positions, decimals: int) -> tuple[NDArray[np.float64], Mask]:
    """The number in [start, end) with exactly that many decimals (1 to 6), correctly rounded, and whether it is one."""
    words = gather(data, end - 16, 2)
    low, high = words[:, 0], words[:, 1]  # the number ends with `high`
    behind = np.uint64(8 * (decimals + 1))
    whole, whole_good = parse_digits((high << behind) | (low >> (np.uint64(64) - behind)), end - start - decimals - 1)
    fraction, fraction_good = parse_digits(high, np.full(len(start), decimals))
    dot_good = ((high >> (np.uint64(64) - behind)) & np.uint64(0xFF)) == np.uint64(ord("."))
    # both integers are exact in a double, so the one division rounds as reading the decimal does
    value = (whole * 10**decimals + fraction).astype(np.float64) / float(10**decimals)
    return value, whole_good & fraction_good & dot_good & _begins(whole, end - start - decimals - 1)


def find_dot(data: bytes, start: Positions) -> tuple[Positions, Mask]:
    """The position of the first '.' in the 8 bytes from `start`, and whether there is one."""
    other = gather(data, start, 1)[:, 0] ^ _repeat(ord("."))
    zero = (other - _repeat(0x01)) & ~other & _repeat(0x80)  # the lowest set bit marks the first zero byte
    return start + _lowest_byte(zero), zero != 0


def count_after_space(data: bytes, end: Positions) -> Positions:
    """How many bytes stand between the last space in the 8 bytes before `end` and `end`; 8 without a space."""
    other = gather(data, end - 8, 1)[:, 0].byteswap() ^ _repeat(ord(" "))
    return _lowest_byte((other - _repeat(0x01)) & ~other & _repeat(0x80))


def _lowest_byte(word: Words) -> Positions:
    """The index of the byte that holds the lowest set bit; 8 without any."""
    return (np.bitwise_count((word & (~word + np.uint64(1))) - np.uint64(1)) >> 3).astype(np.int64)


def match_literal(data: bytes, position: Positions, literal: bytes) -> Mask:
    """Whether the text stands at each position."""
    count = -(-len(literal) // 8)
    words = gather(data, position, count)
    good = np.ones(len(position), np.bool_)
    for index in range(count):
        part = literal[8 * index : 8 * index + 8]
        word = words[:, index] if len(part) == 8 else words[:, index] & (_ALL >> np.uint64(64 - 8 * len(part)))
        good &= word == np.uint64(int.from_bytes(part, "little"))
    return good
