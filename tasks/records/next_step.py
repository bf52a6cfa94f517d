"""The record of the most useful step after a comparison."""

import shlex
from typing import Literal

from configs.frozen import Frozen

StepKind = Literal[
    "resume",  # continue the run that died
    "again",  # train both arms again, without their kept runs
    "record again",  # record both steps again, of which one failed
    "train",  # train both arms after only their programs were compared
    "repeat",
    "until decided",
    "interleave",  # longer turns of both programs
    "every case",
    "other cases",  # the cases that need another target
    "logs",  # read given logs again, with further ones
    "stand-in",  # train the case of given logs on this machine
    "read the log",
    "look",  # at the uncommitted changes
    "by hand",  # no command helps
]


class NextStep(Frozen):
    """The most useful step after a verdict."""

    kind: str  # a StepKind, or the name of a question beside the pipeline
    argv: tuple[str, ...] = ()  # words of the command to type; empty: none
    before: str = ""  # what has to be done by hand, before the command if there is one
    purpose: str = ""  # what the command does, often with the question that it answers
    cost: str = ""  # duration of the command in words; empty: unknown

    @property
    def command(self) -> str:
        """The command as shell text; empty without one."""
        return shlex.join(self.argv)

    @property
    def sentence(self) -> str:
        """What has to be done by hand, and the purpose with the cost in brackets."""
        purpose = f"{self.purpose} ({self.cost})" if self.purpose and self.cost else self.purpose
        return f"{self.before} {purpose}".strip()
