"""What was verified of each case: the card that a pull request of a migration can carry."""

from typing import Literal

from configs.schema import Frozen

CardState = Literal["verified", "failed", "not verified"]


class ReferenceCheck(Frozen):
    """One quantity of a case beside an outside implementation, from the same weights on the same batch."""

    case: str
    reference: str  # with its version, e.g. "HF Mixtral, transformers 4.57.1"
    quantity: str  # e.g. "loss" or "worst gradient, relative"
    difference: float
    limit: float
    commit: str | None
    day: str  # ISO 8601
    command: str  # that checks it again

    @property
    def holds(self) -> bool:
        return self.difference <= self.limit


class CardItem(Frozen):
    """One thing that can be verified of a case, and the evidence."""

    name: str
    state: CardState
    evidence: str


class CardRow(Frozen):
    """Everything that was verified of one case of a comparison on one target."""

    comparison: str
    case: str
    target: str  # empty if the case was never compared
    device: str  # e.g. "8 × TPU v6 lite"; empty if a log does not say
    verdict: str
    arms: tuple[str, str]  # labels of baseline and candidate, with their commits
    day: str
    command: str  # that verifies it again
    items: tuple[CardItem, ...]
    records: dict[str, str] = {}  # file in the store -> sha256 of its content


class Card(Frozen):
    """The rows of every case. `signature` is the sha256 of everything else, with the digests of the records in it."""

    version: int = 1
    rows: tuple[CardRow, ...]
    signature: str = ""
