"""The record of two host loops, timed without their step's program: the difference of their time per step."""

from configs.frozen import Frozen


class Span(Frozen):
    """A difference, candidate − baseline, in seconds per step, and the ends of its interval."""

    effect: float
    low: float
    high: float


class HostTimes(Frozen):
    """The time per step of both arms' host loops while the step's program returned zeros at once.

    `problem`: a sentence why they were not timed; then all other fields have their defaults.
    """

    problem: str = ""
    wall_s: tuple[float, float] = (0.0, 0.0)  # mean seconds per step
    cpu_s: tuple[float, float] = (0.0, 0.0)  # mean processor seconds of all threads per step
    wall: Span | None = None
    cpu: Span | None = None
    pairs: int = 0  # processes of each arm
    steps: int = 0  # timed steps of each arm
