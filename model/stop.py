"""Turns SIGTERM into a flag that training looks at between two steps, so that it can save before it goes."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

EXIT_SIGTERM = 128 + signal.SIGTERM


@dataclass
class StopSignal:
    """Whether SIGTERM has arrived."""

    arrived: bool = False


@contextmanager
def catch_sigterm() -> Iterator[StopSignal]:
    """Note SIGTERM instead of dying of it."""
    stop = StopSignal()

    def note(_signal: int, _frame: object) -> None:
        stop.arrived = True

    before = signal.signal(signal.SIGTERM, note)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGTERM, before)
