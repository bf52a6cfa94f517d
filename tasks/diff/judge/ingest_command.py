"""Builds the arguments of an `ingest` command: the logs of both sides, and the options."""

import glob
import os.path
from collections.abc import Sequence
from itertools import takewhile

UNTITLED = "logs"  # the case if it is unknown
UNNAMED = "as logged"  # the target if it is unknown; no target's name contains a space


def name_logs(*sides: Sequence[str], more: bool = False) -> list[str]:
    """Return the arguments of both sides. A side of several logs is one pattern if it matches exactly these files.

    more: also name the logs of further runs. Then `run1.txt` becomes `run*.txt` and `a.txt` becomes `a*.txt`, unless
    this matches another file already.
    """
    words: list[str] = []
    for option, logs in zip(("--baseline", "--candidate"), sides, strict=True):
        patterns = [f"{_find_begin(logs)}*{_find_begin([log[::-1] for log in logs])[::-1]}"] if len(logs) > 1 else []
        if more and len(logs) == 1:
            stem, end = os.path.splitext(logs[0])
            numberless = stem.rstrip("0123456789")
            patterns = [f"{begin}*{end}" for begin in (numberless, stem) if os.path.basename(begin)]
        exact = (pattern for pattern in patterns if sorted(glob.glob(pattern)) == sorted(logs))
        words += [option, *([pattern] if (pattern := next(exact, "")) else logs)]
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
