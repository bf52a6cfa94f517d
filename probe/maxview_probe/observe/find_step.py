"""Decides which of a trainer's jitted functions is its training step."""

from collections import Counter
from pathlib import Path

from maxview_probe.observe import jaxprs
from maxview_probe.observe.jit_hook import Call
from maxview_probe.observe.observation_files import CLAIM, claim

MAX_INSPECTED = 20  # calls to inspect per function name; after that the name is ignored


class StepFinder:
    """Inspects calls until it finds the training step. name: the step's function; None until the step is found."""

    def __init__(self, folder: Path, function: str = ""):
        """function: the name of the function that is taken for the step; empty: it is found by what it computes."""
        self.folder, self.function = folder, function
        self.name: str | None = None
        self.others: Counter[str] = Counter()  # function name → calls that were not the step, or failed
        self.claimed = False  # True if this process records the step; no other process of the trainer does

    def may_be(self, name: str) -> bool:
        """Whether a function of this name may be the step."""
        known = self.name or self.function
        return name == known if known else self.others[name] < MAX_INSPECTED

    def accept(self, call: Call) -> bool:
        """Return whether this process records this call of the step. The first call of the step sets `name`.

        Once `name` is set, the caller passes only calls of functions with that name.
        """
        if self.name is None:
            if not self.function and not jaxprs.is_step(call.name, call.closed.jaxpr):
                self.others[call.name] += 1
                return False
            self.name, self.claimed = call.name, claim(self.folder)
        return self.claimed

    def reject(self, name: str) -> None:
        """Take back the choice of a function, and ignore it from now on."""
        self.name, self.claimed = None, False
        self.others[name] = MAX_INSPECTED
        (self.folder / CLAIM).unlink(missing_ok=True)
