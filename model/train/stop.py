"""Turns SIGTERM into a flag that training looks at between two steps, so that it can save before it goes."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import jax
from jax.experimental import multihost_utils

EXIT_SIGTERM = 128 + signal.SIGTERM


@dataclass
class StopSignal:
    """Whether SIGTERM has arrived."""

    arrived: bool = False

    def reached(self, step: int) -> bool:
        """Whether to stop before `step`, asked by every process before every step.

        Of several processes each has its own SIGTERM, at its own time: JAX's coordinator names the step at which all of
        them stop, else one would wait for ever for the part of another.
        """
        if jax.process_count() > 1 and multihost_utils.reached_preemption_sync_point(step):
            self.arrived = True
        return self.arrived


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
