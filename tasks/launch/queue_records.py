"""The settings and the handle that all backends share whose jobs wait in a queue for their machines."""

from typing import Annotated, ClassVar

from pydantic import Field

from configs.backends import ImageSettings
from tasks.records.plan import RunHandle


class QueueSettings(ImageSettings):
    """Settings of a backend whose jobs wait in a queue."""

    hires_chips: ClassVar[bool] = True

    start_limit_s: Annotated[int, Field(ge=1)]  # seconds that a run may wait for machines
    attempts: Annotated[int, Field(ge=1, le=100)] = 3  # limit of starts of a run that loses its machines


class QueuedHandle(RunHandle):
    """A run whose job waits in a queue, or has left it."""

    created: float  # time of the launch, seconds since the epoch
    tries: int = 1  # number of this start: 1, and one more after each restart by `follow`
    extra_argv: tuple[str, ...] = ()  # the trainer's arguments after the plan's

    @property
    def command_to_end(self) -> str:
        """The command by which a person ends the job."""
        raise NotImplementedError
