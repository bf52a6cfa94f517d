"""What the host gives the step: rates by the step's number, the parts of a batch, and which updates are skipped."""

import json
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
