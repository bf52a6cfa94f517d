"""Collects all problems of an input, to report them together in one ConfigError."""

import difflib
from collections.abc import Callable, Sequence

MIN_PART = 3  # characters; a shorter word gets no suggestion by substring


class ConfigError(ValueError):
    """All problems of one input, without duplicates, as lines such as `file:line: problem (remedy)`."""

    def __init__(self, problems: Sequence[str]):
        self.problems = list(dict.fromkeys(problems))
        super().__init__("\n".join(self.problems))


class Problems:
    """Collects problems, so that one ConfigError can report them all."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def attempt[T](self, read: Callable[[], T]) -> T | None:
        """Return `read()`; if it raises ConfigError, add the error's problems to `lines` and return None."""
        try:
            return read()
        except ConfigError as error:
            self.lines += error.problems
            return None

    def raise_any(self) -> None:
        """Raise ConfigError with all collected problems; do nothing if there are none."""
        if self.lines:
            raise ConfigError(self.lines)


def suggest(word: str, known: Sequence[str]) -> str:
    """Return ` (did you mean 'x'?)` with a known word: the most similar one, else one with `word` as its first part,
    as 03 in 03_dropout, else one that contains `word`; "" for none.
    """
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    if not near and word:
        near = [name for name in known if name.lower().startswith((f"{word.lower()}_", f"{word.lower()}-"))][:1]
    if not near and len(word) >= MIN_PART:
        near = [name for name in known if word.lower() in name.lower()][:1]
    return f" (did you mean '{near[0]}'?)" if near else ""
