"""Turns a piece of a log into a filter of three-byte sequences, so that a search can skip pieces without the word.

For every three consecutive bytes of a line, in lower case and with 0 for every digit, the bit at their hash is set. A
piece can contain a word only if all bits of the word are set; the page's script checks this (`mayHold`).
"""

import base64

BITS = 1 << 15  # size of a filter
MOST_BYTES = 300_000  # of distinct lines; a piece with more gets no filter, to save time
DIGITS = bytes.maketrans(b"123456789", b"0" * 9)


class Letters:
    """The distinct lines of one piece. Lines that differ only in digits count as one."""

    def __init__(self) -> None:
        self._lines: set[bytes] = set()
        self._bytes = 0

    def take(self, text: str) -> None:
        """Add a line as the page displays it."""
        if self._bytes > MOST_BYTES:
            return
        line = text.lower().encode("utf-8").translate(DIGITS)
        if line not in self._lines:
            self._lines.add(line)
            self._bytes += len(line)

    def filter(self) -> str:
        """Return the filter in base64; empty if the piece is too large for one."""
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
