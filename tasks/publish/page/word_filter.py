"""Turns a piece of a log into a filter that excludes words, so that a search can skip the piece.

The filter has a bit for each three bytes in a row that some line holds, small letters for large ones and 0 for every
digit. A word is only in the piece if all bits of its own are set; the page's script asks the same (`mayHold`).
"""

import base64

BITS = 1 << 15
MOST_BYTES = 300_000  # of lines that differ by more than digits: a larger piece gets no filter, to save time
DIGITS = bytes.maketrans(b"123456789", b"0" * 9)


class Letters:
    """The distinct lines of one piece; lines that differ in digits only count as one."""

    def __init__(self) -> None:
        self._lines: set[bytes] = set()
        self._bytes = 0

    def take(self, text: str) -> None:
        """Add a line, as the page shows it."""
        if self._bytes > MOST_BYTES:
            return
        line = text.lower().encode("utf-8").translate(DIGITS)
        if line not in self._lines:
            self._lines.add(line)
            self._bytes += len(line)

    def filter(self) -> str:
        """Return the bits in base64; empty if the filter excludes nothing."""
        if self._bytes > MOST_BYTES:
            return ""
        threes: set[tuple[int, int, int]] = set()
        for line in self._lines:
            threes.update(zip(line, line[1:], line[2:], strict=False))
        bits = bytearray(BITS // 8)
        for first, second, third in threes:
            place = (first << 10 ^ second << 5 ^ third) % BITS
            bits[place >> 3] |= 1 << (place & 7)
        return base64.b64encode(bits).decode()
