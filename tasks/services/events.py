"""What the flows of this process do, one event after the other, for whoever looks on: nobody on a worker, which has
Prefect's logs and artifacts, and a live view on the command line."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from tasks.launch.job import LaunchedRun
from tasks.launch.watch import JobEvent
from tasks.publish.site import PublishedPage
from tasks.records import Bisection, CheckpointProof, ComparisonRecord, RunPlan


class Planned(NamedTuple):
    """The runs that will be needed, in order."""

    plans: Sequence[RunPlan]


class Reused(NamedTuple):
    """A run that had finished before."""

    plan: RunPlan


class Waits(NamedTuple):
    """Another flow works on the run."""

    plan: RunPlan
    why: str


class Launched(NamedTuple):
    """A run has started or was attached to."""

    run: LaunchedRun


class Logged(NamedTuple):
    """Something new in the run's log."""

    run: LaunchedRun
    what: JobEvent


class Stopping(NamedTuple):
    """The run is being ended before its time."""

    plan: RunPlan


class Verified(NamedTuple):
    """The run is over and its checkpoints were looked at."""

    run: LaunchedRun
    proofs: Sequence[CheckpointProof]


class Comparing(NamedTuple):
    """The values of a case's checkpoints are being compared."""

    case: str
    done: int  # bytes
    total: int


class Extended(NamedTuple):
    """Further runs of a case that is not decided; without plans: why it stays so."""

    plans: Sequence[RunPlan]
    why: str


class Explaining(NamedTuple):
    """It is being looked into why the arms of a case differ; the text says what that costs."""

    case: str
    text: str


class Troubled(NamedTuple):
    """Something beside the comparisons went wrong."""

    text: str


class Compared(NamedTuple):
    """A case has its verdict and its page, in a flow run."""

    record: ComparisonRecord
    page: PublishedPage
    flow_run: str


class Bisected(NamedTuple):
    """A bisection of a case is over and has its page."""

    record: Bisection
    page: PublishedPage


type Event = (
    Planned | Reused | Waits | Launched | Logged | Stopping | Verified | Comparing | Extended | Explaining | Troubled
    | Compared | Bisected
)  # fmt: skip


class Events:
    """Passes each event on to those who listen at that moment, in the thread in which it happens."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[Event], None]] = []

    def put(self, event: Event) -> None:
        """Something has happened."""
        for listen in list(self._listeners):
            listen(event)

    @contextmanager
    def heard_by(self, listen: Callable[[Event], None]) -> Iterator[None]:
        """Inside the block `listen` is called with every event."""
        self._listeners.append(listen)
        try:
            yield
        finally:
            self._listeners.remove(listen)


EVENTS = Events()  # of the flows of this process
