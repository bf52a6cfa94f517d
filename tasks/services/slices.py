"""Limits the concurrent runs on a target to one per slice, across the flows of one Prefect server.

A target is a place to run. A slice is one group of connected TPU chips of the target, and is occupied by one run at a
time. An embedded server has no limits.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from prefect.concurrency.sync import concurrency
from prefect.runtime import deployment
from prefect.settings import get_current_settings

from tasks.services.embedded_server import is_embedded
from tasks.services.outage import outlast, unless_away

LEASE_S = 60.0  # seconds; the slice of a killed flow is released after at most this time


def limit_name(target: str) -> str:
    """Return the name of Prefect's global concurrency limit for a target's slices."""
    return f"maxview-slices-{target}"


@contextmanager
def slice_of(target: str) -> Iterator[None]:
    """Reserve a slice of the target while the block runs; wait for a free one. Does nothing with an embedded server.

    If the server lacks the target's limit, which `maxview up` creates, a deployment's flow run fails, and a flow from
    the command line runs without a limit.
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
        with unless_away():  # during an outage, the slice is released when its lease expires
            held.close()
