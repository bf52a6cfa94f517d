"""Turns decimal digits at many places of a text into numbers at once, eight bytes at a time, as numpy columns."""

import numpy as np
from numpy.typing import NDArray

type Positions = NDArray[np.int64]
type Words = NDArray[np.uint64]
type Mask = NDArray[np.bool_]


def _repeat(byte: int) -> np.uint64:
    return np.uint64(int.from_bytes(bytes([byte]) * 8))


def view_words(data: bytes) -> Words:
    """The 8 bytes that start at each position, little-endian (n − 7,). Nothing is copied until it is indexed."""
    return np.ndarray((max(0, len(data) - 7),), "<u8", data, strides=(1,))


def parse_digits(words: Words, start: Positions, end: Positions) -> tuple[NDArray[np.int64], Mask]:
    """The number that fills [start, end) and whether it is 1 to 8 digits and nothing else. `end` ≥ 8."""
    length = end - start
    good = (length >= 1) & (length <= 8)
    shift = ((8 - np.clip(length, 1, 8)) * 8).astype(np.uint64)
    kept = np.uint64(0xFFFF_FFFF_FFFF_FFFF) << shift  # the first bytes of the word stand before the number
    word = (words[end - 8] & kept) | (_repeat(0x30) & ~kept)
    good &= (word & _repeat(0xF0)) == _repeat(0x30)
    good &= ((word + _repeat(0x06)) & _repeat(0xF0)) == _repeat(0x30)  # ':' to '?' are no digits
    # pairs, then fours, then all eight: the first byte is the highest digit
    word &= _repeat(0x0F)
    word = (word * np.uint64(10) + (word >> np.uint64(8))) & np.uint64(0x00FF_00FF_00FF_00FF)
    word = (word * np.uint64(100) + (word >> np.uint64(16))) & np.uint64(0x0000_FFFF_0000_FFFF)
    word = (word * np.uint64(10_000) + (word >> np.uint64(32))) & np.uint64(0x0000_0000_FFFF_FFFF)
    return word.astype(np.int64), good


def parse_fixed(words: Words, start: Positions, end: Positions, decimals: int) -> tuple[NDArray[np.float64], Mask]:
    """The number in [start, end) with exactly that many decimals (1 to 7), correctly rounded, and whether it is one."""
    dot = end - decimals - 1
    whole, whole_good = parse_digits(words, start, dot)
    fraction, fraction_good = parse_digits(words, dot + 1, end)
    dot_good = (words[dot] & np.uint64(0xFF)) == np.uint64(ord("."))
    # both integers are exact in a double, so the one division rounds as reading the decimal does
    value = (whole * 10**decimals + fraction).astype(np.float64) / float(10**decimals)
    return value, whole_good & fraction_good & dot_good


def find_dot(words: Words, start: Positions) -> tuple[Positions, Mask]:
    """The position of the first '.' in the 8 bytes from `start`, and whether there is one."""
    other = words[start] ^ _repeat(ord("."))
    zero = (other - _repeat(0x01)) & ~other & _repeat(0x80)  # the lowest set bit marks the first zero byte
    index = np.bitwise_count((zero & (~zero + np.uint64(1))) - np.uint64(1)) >> 3
    return start + index.astype(np.int64), zero != 0


def match_literal(words: Words, position: Positions, literal: bytes) -> Mask:
    """Whether the text (8 bytes or longer) stands at each position."""
    good = np.ones(position.shape, np.bool_)
    for offset in {*range(0, len(literal) - 7, 8), len(literal) - 8}:
        word = np.uint64(int.from_bytes(literal[offset : offset + 8], "little"))
        good &= words[position + offset] == word
    return good
