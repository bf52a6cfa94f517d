"""Reserves one slice of a target for a run, across all flows of one Prefect server."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from prefect.concurrency.sync import concurrency
from prefect.runtime import deployment
from prefect.settings import get_current_settings

from tasks.services.idle_server import is_embedded
from tasks.services.outage import outlast, unless_away

LEASE_S = 60.0  # a killed holder's slice is released after at most this time


def limit_name(target: str) -> str:
    """Return the name of the global concurrency limit of a target's slices."""
    return f"maxview-slices-{target}"


@contextmanager
def slice_of(target: str) -> Iterator[None]:
    """Wait for a free slice, hold it while the block runs, and release it. An embedded server has no limits.

    A deployment's run fails if the limit does not exist (`maxview up` creates it); a flow from the command line runs
    without it.
    """
    if is_embedded(get_current_settings().api.url):
        yield
        return
    strict, held = deployment.id is not None, ExitStack()

    def take() -> None:
        held.enter_context(
            concurrency(limit_name(target), strict=strict, lease_duration=LEASE_S, raise_on_lease_renewal_failure=False)
        )

    outlast(take)
    try:
        yield
    finally:
        with unless_away():  # in an outage the lease's end releases the slice
            held.close()
