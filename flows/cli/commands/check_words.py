"""Rejects command-line arguments that are too long or contain control characters."""

import unicodedata
from collections.abc import Sequence

LONGEST_WORD = 4_096  # Linux's limit for a path
DIRECTIONS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")  # they reorder text


def check_words(words: Sequence[str]) -> None:
    """Raise ValueError for an argument that is too long, or has a character that would control the terminal."""
    for number, word in enumerate(words, start=1):
        if len(word) > LONGEST_WORD:
            raise ValueError(
                f"word {number} of the command line has {len(word):,} characters, at most {LONGEST_WORD:,} are "
                "possible: shorten it"
            )
        acting = next((char for char in word if unicodedata.category(char) in ("Cc", "Cs") or char in DIRECTIONS), None)
        if acting is not None:
            raise ValueError(
                f"word {number} of the command line holds the character U+{ord(acting):04X}, which cannot be shown "
                f"({word!a:.80}): type it without, and rename a file that is called so"
            )
