"""The events of the flows in this process, for listeners such as the command line's live view.

In a worker there is no listener: Prefect's logs and artifacts show the same facts. An arm is one of the two compared
versions; a case is a set of config values that both arms share.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from configs.frozen import Frozen
from tasks.launch.backend import LaunchedRun
from tasks.launch.logs import JobEvent
from tasks.publish.content.page_address import PublishedPage
from tasks.records.checkpoint_proof import CheckpointProof
from tasks.records.compared_case import ComparisonRecord
from tasks.records.convergence import ConvergenceRecord
from tasks.records.plan import RunPlan


class Planned(NamedTuple):
    """A flow has planned runs, which may still be reused or left out. `plans`: one plan per run."""

    plans: Sequence[RunPlan]


class Costing(NamedTuple):
    """What the command will do, and how long it took last time on this machine."""

    text: str


class Reused(NamedTuple):
    """A run is not repeated, because it has already finished."""

    plan: RunPlan


class Waits(NamedTuple):
    """This flow waits, because another flow works on the run. `why`: a message with the run's name."""

    plan: RunPlan
    why: str


class Launched(NamedTuple):
    """A run's job was started, or this flow attached to it."""

    run: LaunchedRun


class Logged(NamedTuple):
    """The run's log has a new event or, for a compile, a new line; or the platform has restarted the run's job."""

    run: LaunchedRun
    what: JobEvent


class Stopping(NamedTuple):
    """The run's job is being ended before the run has finished."""

    plan: RunPlan


class Verified(NamedTuple):
    """The run's job has ended, and its Orbax checkpoints were verified. `proofs`: one per checkpoint."""

    run: LaunchedRun
    proofs: Sequence[CheckpointProof]


class Comparing(NamedTuple):
    """The values of a case's checkpoints are being compared."""

    case: str
    done: int  # bytes compared so far
    total: int  # bytes to compare


class Replanned(NamedTuple):
    """The flow has decided how to go on. `why`: the reason as a message; may be empty.

    `plans`: the added runs of an undecided case. Empty: the case gets no more runs, or the flow answers a question
    beside the pipeline, whose runs are announced by `Planned`.
    """

    plans: Sequence[RunPlan]
    why: str


class Explaining(NamedTuple):
    """The cause of the difference between a case's arms is being searched.

    `text`: the differences, and the cost of the search: short runs of both arms, and their duration if known.
    """

    case: str
    text: str


class Progressed(NamedTuple):
    """An experiment on both arms' programs has come further. `text`: its line of progress."""

    case: str
    text: str


class Troubled(NamedTuple):
    """A problem that does not change a verdict. `text`: its message."""

    text: str


class Compared(NamedTuple):
    """A case was compared, and its page was published."""

    record: ComparisonRecord
    page: PublishedPage
    flow_run: str  # id of the flow run that made the comparison


class Judged(NamedTuple):
    """A case has its first word: its cause is still searched, or its runs are still to be trained."""

    record: ComparisonRecord
    what_follows: str


class Converged(NamedTuple):
    """The seeds of a case were compared, and the page was published at the address `page`."""

    record: ConvergenceRecord
    page: str


class Answered(NamedTuple):
    """A question beside the pipeline has its answer, and the answer's page was published."""

    record: Frozen
    page: PublishedPage


type Event = (
    Costing | Planned | Reused | Waits | Launched | Logged | Stopping | Verified | Comparing | Replanned | Explaining
    | Progressed | Troubled | Judged | Compared | Converged | Answered
)  # fmt: skip


class Events:
    """Passes each event to all current listeners, in the thread that called `put`."""

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


EVENTS = Events()  # of all flows in this process
