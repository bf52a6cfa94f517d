"""The record `start.json` of a run that replaced its step's arguments by another run's first state."""

from configs.schema import Frozen

FILE = "start.json"
FOLDER = "start"  # in a run's folder: the shared state and the report


class StartReport(Frozen):
    """The arguments of the step that a shared start replaced, kept or did not use."""

    replaced: tuple[str, ...] = ()  # names of arguments
    kept: dict[str, str] = {}  # name of an argument → why it was not replaced
    unused: tuple[str, ...] = ()  # saved arguments that this step does not have
    own_values: tuple[str, ...] = ()  # kept arguments other than random numbers and counters
    reason: str | None = None  # why nothing was replaced; None: something was

    @property
    def is_shared(self) -> bool:
        """Whether both arms start with equal weights, moments and data."""
        return self.reason is None and bool(self.replaced) and not self.own_values
