"""Knows the forms in which a Megatron log prints its rows, and so tells a row that lost text from one of another form.

A form is the keys of a row with the way their numbers are printed. Rows of a form that came at more than one iteration
are believed. The only row of its form is held against those: a key they do not have, a number printed otherwise, or a
key that is missing without the row saying why, is text that was lost.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from tasks.records import UnreadLine
from tasks.scrape.megatron_rows import FREE, KNOWN, Field, Row, Shape, is_elapsed, name_of
from tasks.scrape.step_line import common_start

# what training_log in megatron/training/training.py prints where nothing in the log shows how
_USUAL = {
    "lm loss": Shape("exponent", (6,)),
    "loss scale": Shape("fixed", (1,)),
    "grad norm": Shape("fixed", (3,)),
    "elapsed time per iteration (ms)": Shape("fixed", (1,)),
}
# what every one of them prints so
_ALWAYS = {
    "learning rate": frozenset({Shape("exponent", (3,)), Shape("exponent", (6,))}),
    # Argonne's without an exponent
    "lm loss": frozenset({Shape("exponent", (6,)), Shape("fixed", (6,))}),
    "loss scale": frozenset({Shape("fixed", (1,))}),
}
# whole numbers that are padded, and how wide their columns are
WIDTHS = {
    "iteration": 8, "consumed samples": 12, "consumed tokens": 12, "global batch size": 5,
    "number of skipped iterations": 3, "number of nan iterations": 3,
}  # fmt: skip
_ALWAYS |= {key: frozenset({Shape("whole", (width,)), Shape("whole", (0,))}) for key, width in WIDTHS.items()}
# what those print so that have no keys of their own
_PLAIN = _ALWAYS | {
    "grad norm": frozenset({Shape("fixed", (3,))}),
    # at once, and on average
    "elapsed time per iteration (ms)": frozenset({Shape("fixed", (1,)), Shape("fixed/fixed", (1, 1))}),
    # Megatron-DeepSpeed's, BigScience's and others'
    "elapsed time per iteration (s)": frozenset({Shape("fixed", (count,)) for count in (2, 4, 6)}),
}
_SKIPPED = ("number of skipped iterations", "number_of_skipped_iterations")
_NAN = ("number of nan iterations", "number_of_nan_iterations")
# left out where the iteration was skipped or its loss is no number
_OPTIONAL = frozenset({"grad norm", "num zeros", "params norm", "grad_norm", "num_zeros", "params_norm"})
TRUSTED_FROM = 2  # iterations
FORMS_MOST, KEYS_MOST = 400, 400
SPLICED_FROM = 3  # letters of each of two keys
ALIKE = 0.85  # of the letters of two keys
_DIGIT = re.compile(r"\d")


@dataclass(frozen=True)
class Form:
    """What rows that are printed alike have in common."""

    total: int | None
    step: Shape
    fields: tuple[tuple[str, Shape], ...]
    literals: tuple[bytes, ...]  # what stands before each number: `| lm loss: `
    padded: tuple[bool, ...]  # whether each has more blanks before it, and is no whole number

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys in order."""
        return tuple(key for key, _ in self.fields)


def form_of(row: Row) -> Form:
    """The form of a row."""
    fields = tuple((field.key, _shape(field)) for field in row.fields)
    literals = tuple(field.literal for field in row.fields)
    return Form(row.total, row.step_field.shape, fields, literals, tuple(map(_is_padded, row.fields)))


def _is_padded(printed: Field) -> bool:
    return printed.is_padded and printed.shape.kind in ("fixed", "exponent", "open")


def _shape(printed: Field) -> Shape:
    return Shape("free") if printed.key in FREE else printed.shape


@dataclass
class Seen:
    """The rows of one form: one of them, how many, at which iterations and where, as long as it is not believed."""

    row: Row
    count: int = 0
    steps: set[int] = field(default_factory=set)
    places: list[UnreadLine] = field(default_factory=list)


@dataclass
class RowForms:
    """The forms of the rows that were read so far."""

    seen: dict[Form, Seen] = field(default_factory=dict)
    _keys: set[str] = field(default_factory=set)
    _usual: set[str] = field(default_factory=set)  # the keys whose numbers are printed as they always are

    def admits(self, row: Row) -> bool:
        """Whether a row's form and its keys are no more than a trainer prints (each key is a column of the table), and
        its numbers are printed as every trainer does, if others of this log are."""
        form = form_of(row)
        if form in self.seen:
            return True
        if any(key in self._usual and shape not in _PLAIN[key] and shape.kind != "open" for key, shape in form.fields):
            return False
        return len(self.seen) < FORMS_MOST and len(self._keys.union(row.keys)) <= KEYS_MOST

    def add(self, form: Form, row: Row, steps: Sequence[int], places: Sequence[UnreadLine]) -> None:
        """Note rows of a form, of which `row` is one."""
        seen = self.seen.setdefault(form, Seen(row))
        self._keys.update(form.keys)
        self._usual.update(key for key, shape in form.fields if key not in WIDTHS and shape in _PLAIN.get(key, ()))
        seen.count += len(steps)
        if len(seen.steps) < TRUSTED_FROM:
            seen.steps.update(steps)
            seen.places = [] if len(seen.steps) >= TRUSTED_FROM else [*seen.places, *places]

    def usual(self) -> Seen | None:
        """The form of most rows."""
        return max(self.seen.values(), key=lambda seen: (seen.count, len(seen.row.fields)), default=None)

    def odd(self) -> list[Seen]:
        """The forms whose rows lost text. They are forgotten."""
        trusted = {form: seen for form, seen in self.seen.items() if len(seen.steps) >= TRUSTED_FROM}
        rare = {form: seen for form, seen in self.seen.items() if form not in trusted}
        found = {form: seen for form, seen in rare.items() if _is_odd(form, seen, trusted or _others(self.seen, form))}
        self.seen = {form: seen for form, seen in self.seen.items() if form not in found}
        return list(found.values())


def _others(seen: dict[Form, Seen], form: Form) -> dict[Form, Seen]:
    """Where no form came twice, those that print their numbers as Megatron does, if this one does not."""
    if _is_usual(form):
        return {}
    return {other: each for other, each in seen.items() if other is not form and _is_usual(other)}


def _is_usual(form: Form) -> bool:
    return not any(form.padded) and all(
        shape == _USUAL.get(key, shape) or shape.kind == "open" for key, shape in form.fields
    )


def _is_odd(form: Form, seen: Seen, trusted: dict[Form, Seen]) -> bool:
    if not any(is_elapsed(key) for key in form.keys):
        return True  # every one of them prints it
    if not trusted:
        fields = (("iteration", form.step), *form.fields)
        if any((name_of(key) == "loss" or is_elapsed(key)) and shape.kind == "whole" for key, shape in form.fields):
            return True
        if any(_is_misspelt(key) or _is_spliced(key) for key in form.keys):
            return True
        plain = KNOWN.issuperset(form.keys)
        always = _PLAIN if plain else _ALWAYS
        if plain and any(form.padded):
            return True
        if any(shape not in always.get(key, {shape}) and shape.kind != "open" for key, shape in fields):
            return True
        return _lost_padding(seen.row)
    row = seen.row
    totals = {other.total for other in trusted}
    if row.total not in totals:
        return True
    if not _fits(row.step_field, {other.step for other in trusted}):
        return True
    widths = {(field.key, field.width) for other in trusted.values() for field in other.row.fields}
    shapes: dict[str, set[Shape]] = {}
    literals: dict[str, set[bytes]] = {}
    padded: dict[str, set[bool]] = {}
    for other in trusted:
        for (key, shape), literal, blanks in zip(other.fields, other.literals, other.padded, strict=True):
            shapes.setdefault(key, set()).add(shape)
            literals.setdefault(key, set()).add(literal)
            padded.setdefault(key, set()).add(blanks)
    for printed in row.fields:
        if printed.literal not in literals.get(printed.key, {printed.literal}):
            return True  # a colon or a blank less
        as_wide = (printed.key, printed.width) in widths
        if not as_wide and _is_padded(printed) not in padded.get(printed.key, {_is_padded(printed)}):
            return True  # a blank more where there is no column to fill
        if printed.key not in shapes:
            if printed.key not in KNOWN or printed.shape != _USUAL.get(printed.key, printed.shape):
                return True
        elif not _fits(printed, shapes[printed.key]):
            return True
    usual = Counter({form: seen.count for form, seen in trusted.items()}).most_common(1)[0][0]
    missing = set(usual.keys) - set(form.keys)
    return bool(missing) and not (all(map(_may_miss, missing)) and _says_why(row))


def _lost_padding(row: Row) -> bool:
    """Whether one whole number lacks the padding that others of the row have."""
    counts = [field for field in row.fields if field.key in WIDTHS and field.shape.kind == "whole"]
    return any(field.is_padded for field in counts) and any(field.width < WIDTHS[field.key] for field in counts)


def _is_misspelt(key: str) -> bool:
    """Whether a key that nobody knows is a known one but for a letter or two; `mtp_2 loss` is `mtp_1 loss` of more."""
    plain = _DIGIT.sub("", key)
    others = {_DIGIT.sub("", known) for known in KNOWN}
    return key not in KNOWN and plain not in others and bool(get_close_matches(plain, others, n=1, cutoff=ALIKE))


def _is_spliced(key: str) -> bool:
    """Whether a key that nobody knows is the begin of one and the end of another, in the middle of a word: text between
    them was lost. `lm lossr of nan iterations`."""
    if key in KNOWN:
        return False
    begins = max(common_start(key, known) for known in KNOWN)
    ends = max(common_start(key[::-1], known[::-1]) for known in KNOWN)
    cuts = range(max(len(key) - ends, SPLICED_FROM), min(begins, len(key) - SPLICED_FROM) + 1)
    return bool(cuts) and all(key[cut - 1].isalnum() and key[cut].isalnum() for cut in cuts)


def _may_miss(key: str) -> bool:
    return key in _OPTIONAL or key.removesuffix("s").endswith("los") or " loss " in f" {key} "


def _says_why(row: Row) -> bool:
    values = row.values
    if any(values.get(key) for key in (*_SKIPPED, *_NAN)):
        return True
    norm = values.get("grad norm", values.get("grad_norm"))
    return isinstance(norm, float) and not math.isfinite(norm)


def _fits(printed: Field, shapes: set[Shape]) -> bool:
    """Whether a number is printed as others of its key are."""
    if printed.key in FREE or printed.shape.kind == "open" or printed.shape in shapes:
        return True
    kinds = {shape.kind for shape in shapes}
    if kinds <= {"open", "free"}:
        return True
    if printed.shape.kind == "whole" and "whole" in kinds:
        # a number that fills or outgrows its column has no padding left
        widths = {shape.digits[0] for shape in shapes if shape.kind == "whole"} - {0}
        padded = bool(printed.shape.digits[0])
        return not widths or (not padded and len(printed.text) >= min(widths))
    return False
