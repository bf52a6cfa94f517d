"""The handle of a run whose job waits in a queue for its machines."""

from tasks.records.plan import RunHandle


class QueuedHandle(RunHandle):
    """A run whose job waits in a queue, or has left it."""

    created: float  # time of the launch, seconds since the epoch
    tries: int = 1  # number of this start: 1, and one more after each restart by `follow`
    extra_argv: tuple[str, ...] = ()  # the trainer's arguments after the plan's

    @property
    def command_to_end(self) -> str:
        """The command by which a person ends the job."""
        raise NotImplementedError
