"""Repeats a request to a server that is away for a while: what a run has done must not depend on who watches it."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx

PATIENCE_S = 900.0  # how long a server may be away
PAUSE_S = 2.0


def outlast[T](ask: Callable[[], T], *, patience_s: float = PATIENCE_S, pause_s: float = PAUSE_S) -> T:
    """What `ask` returns, asked again while the server cannot be reached; after `patience_s` its error is raised."""
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
    """Leave out what the block asks of a server that cannot be reached: for what nobody misses."""
    try:
        yield
    except Exception as error:
        if not is_outage(error):
            raise


def is_outage(error: BaseException) -> bool:
    """Whether an error, or what led to it, is that a server could not be reached; one that answers is not away."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, httpx.TransportError):
            return True
        cause = cause.__cause__ or cause.__context__
    return False
