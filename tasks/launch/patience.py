"""Retries while the service that runs jobs is unavailable: a cluster's API server, or SLURM's controller."""

import logging
import time
from collections.abc import Callable

from tasks.launch.backend import LaunchError

LOOK_EVERY_S = 2.0  # between two requests for a job's state
PATIENCE_S = 900.0  # longest outage that is waited for; an upgrade of a cluster's control plane takes minutes

logger = logging.getLogger(__name__)


class NotAnswering(LaunchError):
    """The service is unavailable for now. `wait_s`: the pause that it requested, in seconds."""

    def __init__(self, message: str, wait_s: float = 0.0) -> None:
        super().__init__(message)
        self.wait_s = wait_s


def retry_outages[T](call: Callable[[], T]) -> T:
    """Return the result of `call`; retry it while it raises NotAnswering. Raises LaunchError after PATIENCE_S."""
    began = None
    while True:
        try:
            return call()
        except NotAnswering as error:
            if began is None:
                began = time.monotonic()
                logger.warning("%s; trying again for %g minutes", error, PATIENCE_S / 60)
            if time.monotonic() - began > PATIENCE_S:
                raise given_up(error) from error
            time.sleep(max(LOOK_EVERY_S, error.wait_s))


def given_up(error: NotAnswering) -> LaunchError:
    """Return the error to raise when an outage, with the last error `error`, has lasted too long."""
    return LaunchError(f"{error}, for {PATIENCE_S:g} s now; repeat the same command to continue")
