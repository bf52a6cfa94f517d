"""Holds one slice of a target while a run is on it, over every flow that one Prefect server knows."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from prefect.concurrency.sync import concurrency
from prefect.runtime import deployment
from prefect.settings import get_current_settings

from tasks.services.outage import outlast, unless_away
from tasks.services.resting import is_embedded

LEASE_S = 60.0  # a killed holder's slice goes back after at most this


def limit_name(target: str) -> str:
    """The global concurrency limit of a target's slices."""
    return f"maxview-slices-{target}"


@contextmanager
def slice_of(target: str) -> Iterator[None]:
    """Wait for a free slice, hold it, and give it back; an embedded server has no slices, as nobody else uses it.

    A deployment's run needs the limit to exist (`maxview up` makes it) and stops if it does not; on a server that
    somebody started without limits, a flow from the command line goes on without.
    """
    if is_embedded(get_current_settings().api.url):
        yield
        return
    strict = deployment.id is not None

    def take() -> ExitStack:
        stack = ExitStack()
        stack.enter_context(
            concurrency(limit_name(target), strict=strict, lease_duration=LEASE_S, raise_on_lease_renewal_failure=False)
        )
        return stack

    held = outlast(take)
    try:
        yield
    finally:
        with unless_away():  # then the slice goes back when its lease ends
            held.close()
