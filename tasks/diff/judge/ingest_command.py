"""Builds the arguments of an `ingest` command: the logs of both sides, and the options."""

import glob
from collections.abc import Sequence
from itertools import takewhile

UNTITLED = "logs"  # the case if it is unknown
UNNAMED = "as logged"  # the target if it is unknown; no target's name contains a space


def name_logs(*sides: Sequence[str]) -> list[str]:
    """Return the arguments of both sides. A side of several logs is one pattern if it matches exactly these files."""
    words: list[str] = []
    for option, logs in zip(("--baseline", "--candidate"), sides, strict=True):
        pattern = f"{_find_begin(logs)}*{_find_begin([log[::-1] for log in logs])[::-1]}"
        exact = len(logs) > 1 and sorted(glob.glob(pattern)) == sorted(logs)
        words += [option, *([pattern] if exact else logs)]
    return words


def _find_begin(texts: Sequence[str]) -> str:
    """Return the text that all texts begin with."""
    return "".join(letters[0] for letters in takewhile(lambda some: len({*some}) == 1, zip(*texts, strict=False)))


def options_of(case: str, target: str | None, tolerances: str = "default", *, aa: bool = False) -> list[str]:
    """Return the options of an `ingest` command; options with their default value are left out."""
    words = [] if case == UNTITLED else ["--case", case]
    words += [] if target in (None, UNNAMED) else ["--target", str(target)]
    words += [] if tolerances == "default" else ["--tolerances", tolerances]
    return words + (["--aa"] if aa else [])
