"""Turns a number and the word for one thing into words: `1 step`, `20 steps`."""


def counted(number: int, word: str) -> str:
    """`word` is the singular of a noun whose plural ends in s; thousands are set apart by commas."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"
