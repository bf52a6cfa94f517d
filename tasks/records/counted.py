"""Formats a count with its noun: `1 step`, `20 steps`."""


def counted(number: int, word: str) -> str:
    """Return `number` with the noun `word` (singular; plural in -s), thousands separated by commas."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"
