"""A planted or innocent change: edits of a trainer's source, the command a user types, and the words it may end in."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

# the words of an answer, by headline and exit status
DIFFERENT = "different"  # exit status 1
UNKNOWN = "unknown"  # exit status 3
LIKELY = "likely"  # exit status 0, but not sure
NARROW = "narrow"  # SAME FUNCTION, SAME FUNCTION AND TIME: sure of that, and the answer says what was not tried
SAME = "same"  # exit status 0 and sure of everything
IMPROVED = "improved"

# a change of what the command evaluates: no word with "sure" covers it
INSIDE = frozenset({DIFFERENT, UNKNOWN, LIKELY})
# a change of saves, evaluations, data or the host loop, which `--only function` does not try: a narrow word is true
OUTSIDE = INSIDE | {NARROW}
# an innocent change
EQUAL = frozenset({SAME, NARROW, LIKELY})

FUNCTION = "compare planted --only function"
TRAINED = "compare trained --repeats 1 --interleave 10s"
# saves move the mean step of short runs, which leaves the word open
CALM = f"{TRAINED} --set enable_checkpointing=false --set steps=40"
TWICE = "compare planted --repeats 2 --interleave off"
API = "compare linen-vs-nnx --repeats 2"


class Edit(NamedTuple):
    """An edit of one file."""

    file: str
    old: str  # occurs once in the file; "": the file is new
    new: str

    def apply(self, tree: Path) -> None:
        """Edit the file below `tree`. Raises ValueError if the old text does not occur once."""
        path = tree / self.file
        text = path.read_text(encoding="utf-8") if self.old else ""
        if self.old and text.count(self.old) != 1:
            raise ValueError(f"{self.file} has {text.count(self.old)} times: {self.old}")
        if not self.old and path.exists():
            raise ValueError(f"{self.file} exists")
        path.write_text(text.replace(self.old, self.new) if self.old else self.new, encoding="utf-8")


class Rename(NamedTuple):
    """A renamed file; its importers are further edits."""

    file: str
    to: str

    def apply(self, tree: Path) -> None:
        """Rename the file below `tree`. Raises OSError."""
        (tree / self.file).rename(tree / self.to)


class Plant(NamedTuple):
    """A change with a known truth."""

    name: str
    kind: str
    edits: tuple[Edit | Rename, ...]
    names: str  # regular expression: what an answer must name, unless the word is *different*
    why: str  # the reason for its truth
    command: str = FUNCTION
    admits: frozenset[str] = INSIDE
    searched: bool = False  # a guarded branch that a search over states has to reach: only *different* counts
    trainer: str = "ours"  # or "stranger", "loops"
    file: str = ""  # of a report: where the right line is,
    line: str = ""  # and a part of its text, in the planted file


def plant_all(kind: str, rows: Iterable[tuple[str, str, str, str, str]], **options: Any) -> tuple[Plant, ...]:
    """Return a plant per row (name, file, old, new, why); an answer must name a line of the file."""
    found = (
        Plant(name, kind, (Edit(file, old, new),), rf"{Path(file).stem}\.py:\d+", why)
        for name, file, old, new, why in rows
    )
    return tuple(plant._replace(**options) for plant in found)
