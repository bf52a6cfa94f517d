"""Chooses, of everything in a log that may have ended a run, the one that did."""

from collections.abc import Iterable
from dataclasses import dataclass

from tasks.records import DeathKind, LogError, Source
from tasks.scrape.causes import EXPLAINING, is_explained, is_follower


@dataclass(frozen=True)
class Found:
    """Something that may have ended the run."""

    form: str  # "traceback", "stop", "usage", "fatal", "signal" or "event"
    type: str
    message: str
    text: str
    source: Source
    detail: str = ""
    weak: str = ""
    chained: bool = False


def choose(strong: list[Found], *, several: bool) -> tuple[Found, str, list[Found]] | None:
    """What ended the run, why this one, and the chain of exceptions that it is the last of."""
    stops = [one for one in strong if one.form == "stop"]
    if stops:
        return stops[0], "", stops[:1]
    chains: list[list[Found]] = []
    for one in strong:
        if one.form not in ("traceback", "fatal"):
            continue
        if one.chained and chains and chains[-1][-1].form == "traceback":
            chains[-1].append(one)
        else:
            chains.append([one])
    if not chains:
        # programs around the trainer complain in the same words, and the trainer may start all the same
        refused = [one for one in strong if one.form == "usage"]
        return (refused[-1], "", refused[-1:]) if refused else None
    own = [chain for chain in chains if not all(is_follower(one.text) for one in chain)]
    others = len(chains) - len(own)
    why = (
        f"{others} more only report{'s' if others == 1 else ''} that something died elsewhere" if own and others else ""
    )
    chains = own or chains
    first = next((index for index, chain in enumerate(chains) if chain[0].form == "fatal"), len(chains))
    raised = chains[:first] or chains[:1]
    repeated = len({(chain[-1].type, chain[-1].message) for chain in raised}) < len(raised)
    chain = raised[0] if several or repeated else raised[-1]
    if len(chains) > 1 and chain is raised[0]:
        why = join(why, f"the first of {len(chains)}")
    if len(chain) > 1:
        why = join(why, f"the last of a chain of {len(chain)}")
    return chain[-1], why, chain


def error_of(found: Found, kind: DeathKind, why: str = "") -> LogError:
    """What ended a run, as records have it."""
    return LogError(
        type=found.type,
        message=found.message,
        line=found.source.line,
        offset=found.source.offset,
        kind=kind,
        why=why,
        detail=found.detail,
    )


def explain(error: LogError, text: str, events: Iterable[tuple[Found, DeathKind]]) -> LogError:
    """With the class of an eviction that the log tells of, if the error, of this text, may have come of it."""
    if not is_explained(error.kind, text):
        return error
    for event, kind in events:
        if kind in EXPLAINING:
            reason = f"line {event.source.line} says: {event.message}"
            return error.model_copy(update={"kind": kind, "why": join(error.why, reason)})
    return error


def join(*reasons: str) -> str:
    return "; ".join(reason for reason in reasons if reason)
