"""Decides which of a trainer's jitted functions is its training step."""

from collections import Counter
from pathlib import Path

from . import jaxprs
from .calls import Call
from .files import claim

MOST_LOOKS = 20  # at functions of one name, before all of that name are left alone


class StepFinder:
    """Collects calls until the training step is found. `name` is then its function's."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.name: str | None = None
        self.others: Counter[str] = Counter()  # names that were no step
        self.claimed = False

    def may_be(self, name: str) -> bool:
        """Whether a function of this name may be the step."""
        return name == self.name if self.name else self.others[name] < MOST_LOOKS

    def accept(self, call: Call) -> bool:
        """Return whether this call is the step, and this process has to record it."""
        if self.name is None:
            if not jaxprs.is_step(call.name, call.closed.jaxpr):
                self.others[call.name] += 1
                return False
            self.name, self.claimed = call.name, claim(self.folder)
        return self.claimed
