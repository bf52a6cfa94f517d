"""Knows the forms in which a log prints its step lines, and so tells a line that lost text from one of another form."""

from collections import Counter
from dataclasses import dataclass, field
from itertools import islice

from tasks.records import UnreadLine
from tasks.scrape.step_line import LOOSE, THREE_DECIMALS, StepLine, is_spliced, split_step
from tasks.scrape.window import Window

type Keys = tuple[str, ...]

TRUSTED_FROM = 3  # lines of other decimals than MaxText's
AGREEING = 3  # numbers of one line


@dataclass
class Form:
    """The lines with the same keys: how many there are, and the first of them."""

    first: UnreadLine
    count: int = 0


@dataclass
class StepForms:
    """The forms of the lines that were read so far."""

    _forms: dict[Keys, Form] = field(default_factory=dict)

    def add(self, window: Window, position: int, keys: Keys, count: int = 1) -> None:
        """Note lines with these keys, of which the first stands at a position."""
        form = self._forms.get(keys)
        if form is None:
            form = self._forms[keys] = Form(begin_of(window, position))
        form.count += count

    def take_odd(self) -> dict[Keys, UnreadLine]:
        """Forget and return the forms that came once and lack fields of the usual form, or have the ends of two keys
        as one: text was lost there."""
        usual = [keys for keys, form in self._forms.items() if form.count > 1]
        odd = {
            keys: form.first
            for keys, form in self._forms.items()
            if form.count == 1
            and (
                any(lacks(keys, other) for other in self._forms)
                or any(set(other) - set(keys) for other in usual)
                or (len(self._forms) > 1 and any(map(is_spliced, keys)))
            )
        }
        self._forms = {keys: form for keys, form in self._forms.items() if keys not in odd}
        return odd


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
