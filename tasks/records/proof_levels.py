"""The levels of proof that a checkpoint exists, from its announcement in the log to a run that continued from it."""

from collections.abc import Collection, Iterable
from typing import Literal, NamedTuple

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


class LevelMeaning(NamedTuple):
    """The levels of proof: the damage that each finds, and the files that it reads."""

    proves: str
    costs: str


LEVELS: dict[Level, LevelMeaning] = {
    "announced": LevelMeaning("the trainer began to save", "nothing: read from the log"),
    "committed": LevelMeaning("the save was completed under this step's name", "a listing and two small files"),
    "structurally whole": LevelMeaning(
        "all metadata files exist and agree with each other and with the data", "the small files"
    ),
    "referentially whole": LevelMeaning(
        "every byte range that the index needs exists; its content is not read", "the index"
    ),
    "content recorded": LevelMeaning(
        "the crc32c of every file is recorded: any later change of a byte is detected", "one reading"
    ),
    "content unchanged": LevelMeaning("every file equals its recorded crc32c", "one reading of every file"),
    "decoded and finite": LevelMeaning(
        "every chunk can be decoded, and no value is NaN or infinite", "one reading, and decoding it"
    ),
    "restored and continued": LevelMeaning(
        "the other arm restored it and trained on to the same bits", "a restore and the steps after it"
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
    """Return the levels that the passed checks reach, in order; a failed check ends the list.

    checks: names of the checks that ran. failed: those that found a problem. recorded_before: the manifest check
    compared the files with an existing manifest, which proves "content unchanged" too.
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
    """Return the highest of these levels; None if there are none."""
    found = set(levels)
    return next((level for level in reversed(LEVELS) if level in found), None)
