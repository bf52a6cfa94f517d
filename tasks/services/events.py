"""The events of this process's flows, for listeners such as the live view of the command line.

A worker has no listener: it has Prefect's logs and artifacts.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from tasks.launch.job import LaunchedRun
from tasks.launch.watch import JobEvent
from tasks.publish.content.page_address import PublishedPage
from tasks.records import Bisection, CheckpointProof, ComparisonRecord, RunPlan


class Planned(NamedTuple):
    """The runs are planned, in order."""

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
    """The run's log has a new line or event."""

    run: LaunchedRun
    what: JobEvent


class Stopping(NamedTuple):
    """The run is being ended before its time."""

    plan: RunPlan


class Verified(NamedTuple):
    """The run has ended and its checkpoints were verified."""

    run: LaunchedRun
    proofs: Sequence[CheckpointProof]


class Comparing(NamedTuple):
    """The values of a case's checkpoints are being compared."""

    case: str
    done: int  # bytes
    total: int


class Extended(NamedTuple):
    """An undecided case gets more runs; without plans, `why` is the reason to stop."""

    plans: Sequence[RunPlan]
    why: str


class Explaining(NamedTuple):
    """The difference of a case's arms is being explained; the text states the cost."""

    case: str
    text: str


class Troubled(NamedTuple):
    """A problem outside of the comparisons."""

    text: str


class Compared(NamedTuple):
    """A case has its verdict and its page, in a flow run."""

    record: ComparisonRecord
    page: PublishedPage
    flow_run: str


class Bisected(NamedTuple):
    """A case's bisection has ended and has its page."""

    record: Bisection
    page: PublishedPage


type Event = (
    Planned | Reused | Waits | Launched | Logged | Stopping | Verified | Comparing | Extended | Explaining | Troubled
    | Compared | Bisected
)  # fmt: skip


class Events:
    """Passes each event to the current listeners, in the thread of the event."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[Event], None]] = []

    def put(self, event: Event) -> None:
        """Pass an event to every listener."""
        for listen in list(self._listeners):
            listen(event)

    @contextmanager
    def heard_by(self, listen: Callable[[Event], None]) -> Iterator[None]:
        """Call `listen` with every event while the block runs."""
        self._listeners.append(listen)
        try:
            yield
        finally:
            self._listeners.remove(listen)


EVENTS = Events()  # of the flows of this process
