"""What a flow tells whoever started it: nothing by default, a live view on a terminal for the command line."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tasks.publish.site import PublishedPage
from tasks.records import CheckpointProof, ComparisonRecord, RunHandle, RunPlan


class Report:
    """Is told what happens, and says nothing: workers have Prefect's logs and artifacts."""

    def planned(self, plans: Sequence[RunPlan]) -> None:
        """The runs that will be needed, in order."""

    def reused(self, plan: RunPlan) -> None:
        """A run that had finished before."""

    def waits(self, plan: RunPlan, why: str) -> None:
        """Another flow works on the run."""

    def launched(self, plan: RunPlan, handle: RunHandle) -> None:
        """A run that has started or was attached to."""

    def saw(self, plan: RunPlan, event: Any) -> None:
        """Something new in the run's log."""

    def stopping(self, plan: RunPlan) -> None:
        """The run is being ended before its time."""

    def verified(self, plan: RunPlan, proofs: Sequence[CheckpointProof]) -> None:
        """The run is over and its checkpoints were looked at."""

    def extended(self, plans: Sequence[RunPlan], why: str) -> None:
        """Further runs of a case that is not decided; without plans: why it stays so."""

    def troubled(self, text: str) -> None:
        """Something beside the comparisons went wrong."""

    def compared(self, record: ComparisonRecord, page: PublishedPage) -> None:
        """A case has its verdict and its page."""


_current: ContextVar[Report | None] = ContextVar("report", default=None)


def current_report() -> Report:
    """The report of whoever started this flow."""
    return _current.get() or Report()


@contextmanager
def reporting_to(report: Report) -> Iterator[Report]:
    """Make `report` the one that flows started inside this block talk to."""
    token = _current.set(report)
    try:
        yield report
    finally:
        _current.reset(token)
