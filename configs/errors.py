"""Collects what is wrong with an input, so that its author hears of everything at once."""

import difflib
from collections.abc import Callable, Sequence

LEAST_PART = 3  # letters that must agree before a part of a name counts as a hint


class ConfigError(ValueError):
    """Every problem of one input, each as `file:line: what is wrong (what to do)`, each once."""

    def __init__(self, problems: Sequence[str]):
        self.problems = list(dict.fromkeys(problems))
        super().__init__("\n".join(self.problems))


class Problems:
    """Goes on after an error, and raises one ConfigError with all of them at the end."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def attempt[T](self, read: Callable[[], T]) -> T | None:
        """What `read()` returns; None if it raised ConfigError, whose problems are kept."""
        try:
            return read()
        except ConfigError as error:
            self.lines += error.problems
            return None

    def raise_any(self) -> None:
        """Raises ConfigError if anything was wrong."""
        if self.lines:
            raise ConfigError(self.lines)


def suggest(word: str, known: Sequence[str]) -> str:
    """` (did you mean 'x'?)`: the nearest known word, or one that `word` is a part of; nothing if there is none."""
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    if not near and len(word) >= LEAST_PART:
        near = [name for name in known if word.lower() in name.lower()][:1]
    return f" (did you mean '{near[0]}'?)" if near else ""
