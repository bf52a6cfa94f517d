"""The record of two programs that took turns on one device: the difference of their step times."""

from configs.frozen import Frozen


class TimeRatio(Frozen):
    """A difference, candidate ÷ baseline − 1, and the ends of its 99 % interval."""

    effect: float
    low: float
    high: float


class ProgramTimes(Frozen):
    """The step times of both arms' programs, measured in turns.

    `problem`: a sentence why they were not measured; then all other fields have their defaults.
    """

    problem: str = ""
    wall: TimeRatio | None = None
    cpu: TimeRatio | None = None  # processor time of the host
    step_s: tuple[float, float] = (0.0, 0.0)  # median step; on a CPU without waits for a processor
    draws: int = 0  # pairs of newly loaded executables
    rounds: int = 0  # turns of each arm
    steps: tuple[int, int] = (0, 0)  # timed steps of each arm
    peak_bytes: tuple[int | None, int | None] = (None, None)  # of each program on one device; None: unknown
    alone: bool = False  # both states did not fit into memory: one program ran after the other
    processes: int = 1  # 2: the arms could not share a process, and took turns by a token
    seconds: float = 0.0
    limit_s: float = 0.0
    contradicted: str = ""  # another measurement of the same programs, if both intervals exclude each other
    load: float = 0.0  # running processes of the machine, mean of the last minute
