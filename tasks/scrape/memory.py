"""Gives the columns of many windows memory out of a few large pieces, which the kernel maps in large pages.

A page of 4 KB that is touched for the first time costs as much as reading sixteen rows into it. NumPy asks for large
pages only for arrays of 4 MB and more; the columns of one window are smaller, and are kept as long as the table is.
"""

import numpy as np
from numpy.typing import NDArray

LEAST, MOST = 4 << 20, 32 << 20  # bytes of a piece; each is twice as large as the one before
SMALL = 256 << 10  # bytes that do not keep a piece alive: of a short log, or of a few rows

type Bytes = NDArray[np.uint8]


class Memory:
    """Pieces that are used up from their beginning. Not for several threads at a time."""

    def __init__(self) -> None:
        self._piece: Bytes = np.empty(0, np.uint8)
        self._used = 0
        self._lent = 0

    def lend(self, size: int) -> Bytes:
        """So many bytes, which hold anything. What was lent before and is not kept is lent again."""
        if size < SMALL:
            self._lent = 0
            return np.empty(size, np.uint8)
        if self._used + size > len(self._piece):
            self._piece = np.empty(max(size, min(max(LEAST, 2 * len(self._piece)), MOST)), np.uint8)
            self._used = 0
        self._lent = size
        return self._piece[self._used : self._used + size]

    def keep(self, size: int) -> None:
        """So many of the bytes that were lent last are not lent again."""
        self._used += -(-min(size, self._lent) // 8) * 8
        self._lent = 0
