"""What the host gives the step: rates by the step's number, the parts of a batch, and which updates are skipped."""

import json
import os
import sys
from pathlib import Path

DECAYS = (0.875, 0.875, 0.9)
LIMIT = 50.0
RATES = json.loads((Path(__file__).parent / "rates.json").read_text())


class Pauses:
    """Steps without an update."""

    pause_every: int = 500


def decay_at(step: int) -> float:
    """Return the average's rate."""
    return DECAYS[min(step // 100, 2)]


def rate_at(step: int, ends: tuple[int, ...] = (2000, 3000)) -> float:
    """Return the learning rate."""
    return RATES[min(step // 100, 2)] * 0.5 ** sum(step > end for end in ends)


def parts_at(step: int) -> int:
    """Return the number of parts of a batch."""
    return 2


def is_skipped(loss: float) -> bool:
    """Whether there is no update."""
    return loss > LIMIT


class Halved:
    """A rate that is halved every so many steps."""

    def __init__(self, rate, every: int) -> None:
        self.rate_at, self.every = rate, every

    def rate(self, step: int) -> float:
        """Return the rate."""
        return self.rate_at(step) * 0.5 ** (step // self.every)


PHASES = {"early": 100, "late": 3_000}


def phase(name: str) -> int:
    """Return the first step of a phase."""
    return getattr(sys.modules[__name__], "PHASES")[name]  # noqa: B009, a name that no reader of the source sees


def last_step() -> int:
    """Return the first step without an update."""
    return int(os.environ.get("LAST_STEP", "30000"))


def factors_of_steps():
    """Yield a factor of the rate for each step."""
    n = 0
    while True:
        yield 1.0 if n < 700 else 0.5
        n += 1
