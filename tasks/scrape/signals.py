"""Names what a launcher, a shell or a scheduler says a process ended by: a signal, an eviction."""

import re
import signal
from contextlib import suppress

SIGNALS = {1: "SIGHUP", 2: "SIGINT", 4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV",
           15: "SIGTERM"}  # fmt: skip
_SAID = {"Killed": "SIGKILL", "Terminated": "SIGTERM", "Aborted": "SIGABRT", "Segmentation fault": "SIGSEGV",
         "Bus error": "SIGBUS"}  # fmt: skip
_NAME_ENDS = re.compile(r"[:;(*]| in session")


def event_name(text: str) -> str:
    """What happened, without whom to and why: `SLICE_FAILURE_CHIP_DRIVER_ERROR in session e6; …` by its first word."""
    return _NAME_ENDS.split(text, maxsplit=1)[0].strip()


def signal_name(said: str) -> str:
    """`Killed` or `9` as `SIGKILL`; what is no known word or number stays as it is."""
    if said.isascii() and said.isdigit():
        with suppress(ValueError):  # a number that is no signal here
            return signal.Signals(int(said)).name
        return f"signal {said}"
    return _SAID.get(said, said)
