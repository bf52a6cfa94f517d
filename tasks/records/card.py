"""The verification results of each case, as a card for a pull request of a migration."""

from typing import Literal

from configs.schema import Frozen

CardState = Literal["verified", "failed", "not verified"]


class ReferenceCheck(Frozen):
    """One quantity of a case compared with an independent implementation, from the same weights and batch."""

    case: str
    reference: str  # with its version, e.g. "HF Mixtral, transformers 4.57.1"
    quantity: str  # e.g. "loss" or "worst gradient, relative"
    difference: float
    limit: float
    commit: str | None  # of our trainer; None with uncommitted changes
    day: str  # ISO 8601
    command: str  # repeats the check

    @property
    def holds(self) -> bool:
        return self.difference <= self.limit


class CardItem(Frozen):
    """One property of a case, whether it was verified, and the evidence."""

    name: str
    state: CardState
    evidence: str
    sources: tuple[str, ...] = ()  # the verified commits of our trainer, or UNCOMMITTED; empty for another trainer


class CardRow(Frozen):
    """The verification results of one case of a comparison on one target."""

    comparison: str
    case: str
    target: str  # empty if the case was never compared
    device: str  # e.g. "8 × TPU v6 lite"; empty if no log shows it
    verdict: str
    arms: tuple[str, str]  # labels of baseline and candidate, with their commits
    day: str
    command: str  # repeats the verification
    items: tuple[CardItem, ...]
    trainers: tuple[str, ...] = ()  # e.g. "maxview 64bc92418" or "maxtext 0.2.4"; two if the arms differ in it
    checks: tuple[ReferenceCheck, ...] = ()  # the evidence for outside references
    records: dict[str, str] = {}  # file in the store -> sha256 of its content


class Card(Frozen):
    """The rows of every case. `signature`: sha256 of all other fields, including the digests of the records."""

    version: int = 2
    rows: tuple[CardRow, ...]
    sources: dict[str, dict[str, str]] = {}  # commit of our trainer -> file -> digest of its meaning
    signature: str = ""


UNCOMMITTED = "uncommitted changes"


def key_of(row: CardRow, item: CardItem) -> tuple[str, ...]:
    """Return the key of an item of a card."""
    return row.comparison, row.case, row.target, item.name
