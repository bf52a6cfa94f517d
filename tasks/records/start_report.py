"""A run's report of the arguments that it took from the other arm's first state."""

from configs.schema import Frozen

FILE = "start.json"
FOLDER = "start"  # in a run's folder: the shared state and the report


class StartReport(Frozen):
    """The result of a shared start, by argument of the step. `reason`: why nothing was shared."""

    replaced: tuple[str, ...] = ()
    kept: dict[str, str] = {}  # argument → why it was not replaced
    unused: tuple[str, ...] = ()  # arguments of the other arm only
    own_values: tuple[str, ...] = ()  # kept arguments other than random numbers and counters
    reason: str | None = None

    @property
    def is_shared(self) -> bool:
        """Whether both arms start with equal weights, moments and data."""
        return self.reason is None and bool(self.replaced) and not self.own_values
