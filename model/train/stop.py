"""Turns SIGTERM into a flag that the training loop checks before each step, so that it can save before it exits."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import jax
from jax.experimental import multihost_utils

EXIT_SIGTERM = 128 + signal.SIGTERM


@dataclass
class StopSignal:
    """Whether SIGTERM has arrived, with several processes in any of them."""

    arrived: bool = False

    def reached(self, step: int) -> bool:
        """Return whether to stop before `step`. Every process must call this before every step.

        SIGTERM reaches the processes at different times. JAX's coordinator chooses one step at which all stop;
        otherwise a process could wait forever for one that has stopped.
        """
        if jax.process_count() > 1 and multihost_utils.reached_preemption_sync_point(step):
            self.arrived = True
        return self.arrived


@contextmanager
def catch_sigterm() -> Iterator[StopSignal]:
    """Record SIGTERM instead of exiting."""
    stop = StopSignal()

    def note(_signal: int, _frame: object) -> None:
        stop.arrived = True

    before = signal.signal(signal.SIGTERM, note)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGTERM, before)
