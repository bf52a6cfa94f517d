"""Times the front end of a jitted step: its trace to a jaxpr, and the jaxpr's lowering to StableHLO."""

import time

import jax

from maxview_probe.observe.jit_hook import Call

REPEATS = 4
LIMIT_S = 2.0  # no repeat begins after this processor time


class FrontEnd:
    """The front end of one call: the first trace, and repeats of it when nothing needs JAX's caches any more."""

    def __init__(self, call: Call, lower_s: float):
        """lower_s: seconds of this thread's processor time that the first lowering took."""
        self.retrace = call.retrace
        self.samples = [] if call.trace_s is None else [call.trace_s + lower_s]

    def measure(self) -> list[float]:
        """Return the seconds of each repeat, the first call's first; empties JAX's caches.

        Seconds of this thread's processor time: other threads and programs do not count.
        """
        while self.retrace is not None and 0 < len(self.samples) <= REPEATS and sum(self.samples) < LIMIT_S:
            jax.clear_caches()
            began = time.thread_time()
            self.retrace().lower()
            self.samples.append(time.thread_time() - began)
        return self.samples
