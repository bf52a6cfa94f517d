"""The record of two training loops that took turns: the difference of their time per step, and their compiles."""

from configs.frozen import Frozen
from tasks.records.program_times import TimeRatio


class LoopCompile(Frozen):
    """A function that a loop compiles after its warm-up."""

    function: str
    place: str  # "file:line" that calls it
    why: str = ""  # the argument that changed, as path and both types or values
    count: int  # in `LoopTimes.steps` steps


class LoopTimes(Frozen):
    """The time per step of both arms' loops as they run, measured in turns.

    `problem`: a sentence why they were not measured; then all other fields have their defaults.
    """

    problem: str = ""
    wall: TimeRatio | None = None
    cpu: TimeRatio | None = None  # processor time of the trainer's process
    step_s: tuple[float, float] = (0.0, 0.0)  # median step; on a CPU without waits for a processor
    cpu_s: tuple[float, float] = (0.0, 0.0)
    rounds: int = 0  # turns of each arm
    steps: int = 0  # timed steps of each arm
    processes: int = 1  # pairs of processes: 2 if the first differed; the intervals span both
    compiles: tuple[tuple[LoopCompile, ...], tuple[LoopCompile, ...]] = ((), ())
    seconds: float = 0.0
    limit_s: float = 0.0
    load: float = 0.0
