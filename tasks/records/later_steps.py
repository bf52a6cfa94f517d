"""The record of what two hosts give their steps' programs, in more steps than were recorded."""

from configs.frozen import Frozen


class LaterSteps(Frozen):
    """The host's calls of both arms, whose programs with matrix products returned zeros at once.

    `problem`: a sentence why they were not compared; then all other fields have their defaults.
    """

    problem: str = ""
    step: str = ""  # name of the step's function
    steps: int = 0  # its calls in the arm with fewer
    first: int | None = None  # the first call of the step, from 0, before which the arms differ; None: never
    difference: str = ""  # the first of the host's calls that differs, in words

    @property
    def sentence(self) -> str:
        """What was found."""
        if self.problem:
            return self.problem
        if self.first is None:
            return f"both hosts give their functions equal values, in {self.steps:,} calls of `{self.step}`"
        return f"from call {self.first:,} of `{self.step}` on: {self.difference}"
