"""Knows the forms in which a log prints its step lines, and so tells a line that lost text from one of another form."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from tasks.records import UnreadLine
from tasks.scrape.step_line import LOOSE, THREE_DECIMALS, StepLine, find_torn, is_spliced, split_step
from tasks.scrape.window import Window

type Keys = tuple[str, ...]
type Steps = NDArray[np.int64]

TRUSTED_FROM = 3  # lines of other decimals than MaxText's
AGREEING = 3  # numbers of one line
FEW = 20  # lines of one form at one step
FORMS_MOST = 200  # of one step each


@dataclass
class Form:
    """The lines with the same keys: the step of the first, whether others came, and where those of it are."""

    step: int
    often: bool = False
    places: list[UnreadLine] = field(default_factory=list)


@dataclass
class StepForms:
    """The forms of the lines that were read so far."""

    _forms: dict[Keys, Form] = field(default_factory=dict)

    def add(self, window: Window, position: int, keys: Keys, steps: Sequence[int] | Steps) -> None:
        """Note lines with these keys, of which the first stands at a position."""
        form = self._forms.get(keys)
        if form is None:
            form = self._forms[keys] = Form(int(steps[0]))
        # a line that damage has doubled shows no more than once
        form.often = form.often or any(int(step) != form.step for step in steps)
        if form.often:
            form.places = []
        elif len(form.places) < FEW:
            form.places.append(begin_of(window, position))

    def take_odd(self) -> dict[Keys, list[UnreadLine]]:
        """Forget and return the forms of one step in which a key is made of pieces of the log's other keys, or which
        lack fields of another form: text was lost there."""
        once = {keys: form.places for keys, form in self._forms.items() if not form.often}
        often = [keys for keys in self._forms if keys not in once][:FORMS_MOST]
        torn = self._find_torn(once) if len(self._forms) > 1 else set()
        sound = [*often, *(keys for keys in once if keys not in torn)]
        odd = {
            keys: places
            for keys, places in once.items()
            if keys in torn
            or len(once) > FORMS_MOST  # no trainer changes its mind so often
            or any(lacks(keys, other) for other in sound)
            or any(set(other) - set(keys) for other in often)
        }
        self._forms = {keys: form for keys, form in self._forms.items() if keys not in odd}
        return odd

    def _find_torn(self, once: Collection[Keys]) -> set[Keys]:
        """The forms with a key of their own that is made of pieces of others."""
        counts = Counter(key for keys in self._forms for key in keys)
        torn = {key for key in find_torn(counts) | set(filter(is_spliced, counts)) if counts[key] == 1}
        return {keys for keys in once if not torn.isdisjoint(keys)}


def lacks(keys: Keys, others: Keys) -> bool:
    """Whether the keys are some of the others, but not all, in their order."""
    rest = iter(others)
    return len(keys) < len(others) and all(key in rest for key in keys)


def find_usual(window: Window) -> StepLine | None:
    """The first of the lines whose form is the most common one among the first of a window."""
    lines = [split_step(window.data, match.start()) for match in islice(LOOSE.finditer(window.data, window.start), 50)]
    # a stretch that damage has doubled shows no more than the line in it
    forms = Counter(form for form, _ in {(line.form, line.step) for line in lines if line is not None})
    if not forms:
        return None
    # of forms that are as common, the one that prints its numbers as every version does
    usual = max(forms, key=lambda form: (forms[form], _is_regular(form)))
    if forms[usual] < TRUSTED_FROM and not _is_regular(usual):
        return None  # it may have lost a digit: it shows nothing
    return next(line for line in lines if line is not None and line.form == usual)


def _is_regular(form: tuple[tuple[str, int | None], ...]) -> bool:
    """Whether a line's numbers have three decimals, as every version prints them, or agree on another count."""
    decimals = [count for key, count in form if key in THREE_DECIMALS and count is not None]
    return set(decimals) <= {3} or (len(decimals) >= AGREEING and len(set(decimals)) == 1)


def begin_of(window: Window, position: int) -> UnreadLine:
    """Where a step line stands and how it begins."""
    source = window.source(position)
    text = window.data[position : position + 200].split(b"\n")[0].decode("utf-8", "replace")
    return UnreadLine(line=source.line, offset=source.offset, text=text)
