"""Holds one slice of a target while a run is on it, over every flow that one Prefect server knows."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar

from prefect.concurrency.sync import concurrency
from prefect.runtime import deployment

from tasks.services.outage import outlast, unless_away

LEASE_S = 60.0  # a killed holder's slice goes back after at most this

_alone: ContextVar[bool] = ContextVar("alone", default=False)


def limit_name(target: str) -> str:
    """The global concurrency limit of a target's slices."""
    return f"maxview-slices-{target}"


@contextmanager
def alone() -> Iterator[None]:
    """Flows inside this block have a Prefect server of their own: there is nobody to share a target with."""
    token = _alone.set(True)
    try:
        yield
    finally:
        _alone.reset(token)


@contextmanager
def slice_of(target: str) -> Iterator[None]:
    """Wait for a free slice, hold it, and give it back.

    A deployment's run needs the limit to exist (`maxview up` makes it) and stops if it does not; on a server that
    somebody started without limits, a flow from the command line goes on without.
    """
    if _alone.get():
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
