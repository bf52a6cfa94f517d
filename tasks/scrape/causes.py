"""Turns what ended a run into a class of death, by tables of the texts that programs really print.

The first entry that fits counts: what the machine did to the run comes before what its programs then said.
"""

import re

from tasks.records import DeathKind
from tasks.scrape.cause import Cause
from tasks.scrape.causes_from_outside import FROM_OUTSIDE
from tasks.scrape.causes_from_within import FROM_WITHIN

CAUSES: tuple[Cause, ...] = (*FROM_OUTSIDE, *FROM_WITHIN)

# of several hosts that die, these only say that another one died before
_FOLLOWERS = re.compile(
    r"JAX distributed service detected (?:fatal errors|failure)|another task died|coordination service|"
    r"(?:failed, got preempted, or crashed|stopped sending heartbeats)|[Hh]eartbeat timeout|Socket closed|"
    r"[Bb]arrier timed out|Connection reset by peer|ChildFailedError|remote process exited|The tasks have crashed|"
    r"ncclRemoteError|unexpected exit of a remote peer|closed by (?:remote )?peer|ActorDiedError|"
    r"actor died unexpectedly|Shutdown barrier|Task exited unexpectedly|Gloo .{0,200}[Cc]onnect"
)


# what the coordination service says may have happened elsewhere
_GUESSES = re.compile(
    r"\(e\.g\. preemption, eviction\)|was preempted/died/restarted|has failed, got preempted, or crashed"
)


def classify(text: str, *, backend: str | None = None, before_steps: bool = False) -> DeathKind:
    """The class of an error; `other` where nothing in the table fits.

    `text`: `Type: message`, the lines below it, and last, if it is known, `in file.py`: where it was raised.
    """
    text = _GUESSES.sub("", text)
    for cause in CAUSES:
        if cause.only_on is not None and (backend or "").lower() != cause.only_on:
            continue
        if cause.only_before_steps and not before_steps:
            continue
        if cause.pattern.search(text):
            return cause.kind
    return "other"


EXPLAINING: frozenset[DeathKind] = frozenset({"preempted", "host_oom", "storage"})  # classes of evictions


def is_explained(kind: DeathKind, text: str) -> bool:
    """Whether an eviction explains an error better than its own class does."""
    return kind in ("other", "killed", "timeout") or is_follower(text)


def is_follower(text: str) -> bool:
    """Whether an error only tells that something died elsewhere."""
    return bool(_FOLLOWERS.search(text))
