"""What a run took of another arm's first state, as its own process reported it."""

from configs.schema import Frozen

FILE = "start.json"
FOLDER = "start"  # of a run's folder: what is shared, and how it went


class StartReport(Frozen):
    """Names are those of the step's arguments. `reason`: why nothing was shared."""

    replaced: tuple[str, ...] = ()
    kept: dict[str, str] = {}  # argument -> why it stays the arm's own
    unused: tuple[str, ...] = ()  # arguments that only the other arm has
    own_values: tuple[str, ...] = ()  # of those kept, the ones that are neither random numbers nor counters
    reason: str | None = None

    @property
    def is_shared(self) -> bool:
        """Whether both arms begin with equal weights, moments and data."""
        return self.reason is None and bool(self.replaced) and not self.own_values
