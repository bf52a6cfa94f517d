"""Formats a count with its noun: `1 step`, `20 steps`."""


def counted(number: int, word: str) -> str:
    """Return a number with its noun. `word`: the singular of a noun with plural in -s."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"
