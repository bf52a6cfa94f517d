"""Retries or omits requests to a server that cannot be reached, so that an outage does not lose a run's result."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx

PATIENCE_S = 900.0  # an outage that lasts longer is an error
PAUSE_S = 2.0  # between two tries


def outlast[T](ask: Callable[[], T], *, patience_s: float = PATIENCE_S, pause_s: float = PAUSE_S) -> T:
    """Return the result of `ask`; retry while the server cannot be reached.

    Re-raises that error after `patience_s` seconds, and any other error at once.
    """
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return ask()
        except Exception as error:
            if not is_outage(error) or time.monotonic() > deadline:
                raise
        time.sleep(pause_s)


@contextmanager
def unless_away() -> Iterator[None]:
    """Suppress the error of an outage in the block. For optional requests."""
    try:
        yield
    except Exception as error:
        if not is_outage(error):
            raise


def is_outage(error: BaseException) -> bool:
    """Return whether an error, or one of its causes, is a failed or broken connection or a timeout.

    An error response is no outage.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, httpx.TransportError):
            return True
        cause = cause.__cause__ or cause.__context__
    return False
