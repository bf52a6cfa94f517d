"""The levels of proof of a checkpoint, from its announcement in the log to a run that continued from it."""

from collections.abc import Collection, Iterable
from typing import Literal

from configs.schema import Frozen

Level = Literal[
    "announced",
    "committed",
    "structurally whole",
    "referentially whole",
    "content recorded",
    "content unchanged",
    "decoded and finite",
    "restored and continued",
]


class LevelMeaning(Frozen):
    """The meaning of a level of proof, and the cost to reach it."""

    proves: str
    costs: str


LEVELS: dict[Level, LevelMeaning] = {
    "announced": LevelMeaning(proves="the trainer began to save", costs="nothing: read from the log"),
    "committed": LevelMeaning(
        proves="the save was completed under this step's name", costs="a listing and two small files"
    ),
    "structurally whole": LevelMeaning(
        proves="all metadata files exist and agree with each other and with the data", costs="the small files"
    ),
    "referentially whole": LevelMeaning(
        proves="every byte range that the index needs exists; its content is not read", costs="the index"
    ),
    "content recorded": LevelMeaning(
        proves="the crc32c of every file is recorded: any later change of a byte is detected", costs="one reading"
    ),
    "content unchanged": LevelMeaning(
        proves="every file equals its recorded crc32c", costs="one reading of every file"
    ),
    "decoded and finite": LevelMeaning(
        proves="every chunk can be decoded, and no value is NaN or infinite", costs="one reading, and decoding it"
    ),
    "restored and continued": LevelMeaning(
        proves="the other arm restored it and trained on to the same bits", costs="a restore and the steps after it"
    ),
}

_BY_CHECK: dict[str, Level] = {
    "commit": "committed",
    "metadata": "structurally whole",
    "ranges": "referentially whole",
    "manifest": "content recorded",
    "values": "decoded and finite",
}


def reached(checks: Collection[str], failed: Collection[str], *, recorded_before: bool = False) -> tuple[Level, ...]:
    """Return the levels reached by checks, in order, below the first failed check.

    `recorded_before`: the files matched an existing manifest.
    """
    levels: list[Level] = []
    for check, level in _BY_CHECK.items():
        if check in failed:
            break
        if check in checks:
            levels.append(level)
            if level == "content recorded" and recorded_before:
                levels.append("content unchanged")
    return tuple(levels)


def highest(levels: Iterable[Level]) -> Level | None:
    """Return the highest of these levels; None without any."""
    found = set(levels)
    return next((level for level in reversed(LEVELS) if level in found), None)
