"""Takes off what is around the lines of a log that is still growing: colours, carriage returns, prefixes of pods."""

import re

from tasks.scrape.clean import clean_piece, keep_back
from tasks.scrape.unwrap import LINE_PREFIXES

DECIDE_WITHIN = 400  # bytes of a first line in which its prefix shows


class LiveText:
    """The text inside of a log that comes in pieces, in pieces."""

    def __init__(self) -> None:
        self._rest = b""  # may be the beginning of an escape sequence
        self._line = b""  # a line that may still get, or lose, its prefix
        self._prefix: re.Pattern[bytes] | None = None
        self._decided = False

    def feed(self, data: bytes) -> bytes:
        """What of the text is certain now."""
        data = self._rest + data
        keep = keep_back(data)
        self._rest = data[keep:]
        return self._take(clean_piece(data[:keep]))

    def close(self) -> bytes:
        """What is left when nothing more comes."""
        text = self._take(clean_piece(self._rest))
        rest, self._rest, self._line = self._line, b"", b""
        return text + (self._prefix.sub(b"", rest) if self._prefix else rest)

    def _take(self, text: bytes) -> bytes:
        text = self._line + text
        if not self._decided and (b"\n" in text.lstrip() or len(text) > DECIDE_WITHIN):
            start = text.lstrip()
            self._prefix = next((prefix for prefix in LINE_PREFIXES if prefix.match(start)), None)
            self._decided = True
        cut = text.rfind(b"\n") + 1 if self._prefix else len(text) * self._decided
        self._line = text[cut:]
        return self._prefix.sub(b"", text[:cut]) if self._prefix else text[:cut]
