"""Hands the rules that a night froze when it began to the comparisons that it runs, hours later."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from configs.verdict_rules import VerdictRules

_current: ContextVar[VerdictRules | None] = ContextVar("rules", default=None)


def current_rules() -> VerdictRules | None:
    """The rules that this flow's comparison was given; None: as its files say now."""
    return _current.get()


@contextmanager
def judging_by(rules: VerdictRules | None) -> Iterator[None]:
    """Make `rules` those of the comparison that is started inside this block."""
    token = _current.set(rules)
    try:
        yield
    finally:
        _current.reset(token)
