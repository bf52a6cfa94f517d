"""Records of a card: the verification results of every case, for the pull request of a migration."""

from typing import Literal

from configs.schema import Frozen

CardState = Literal["verified", "failed", "not verified"]


class ReferenceCheck(Frozen):
    """The comparison of one quantity with an independent implementation, given equal weights and batch."""

    case: str
    reference: str  # the implementation with its version, e.g. "HF Mixtral, transformers 4.57.1"
    quantity: str  # e.g. "loss" or "worst gradient, relative"
    difference: float  # absolute, or relative if `quantity` says so
    limit: float  # largest accepted `difference`
    commit: str | None  # of maxview's trainer; None with uncommitted changes
    day: str  # ISO 8601
    command: str  # repeats the check

    @property
    def is_within_limit(self) -> bool:
        """Whether the difference is accepted."""
        return self.difference <= self.limit


class CardItem(Frozen):
    """One property of a case: whether it was verified, and the evidence."""

    name: str
    state: CardState
    evidence: str
    sources: tuple[str, ...] = ()  # verified commits of maxview's trainer, or UNCOMMITTED; empty for another trainer


class CardRow(Frozen):
    """The verification results of one case of a comparison on one target."""

    comparison: str
    case: str
    target: str  # empty if the case was never compared
    device: str  # e.g. "8 × TPU v6 lite"; empty if no log shows it
    verdict: str  # the comparison's verdict, "died" or "not compared"
    arms: tuple[str, str]  # labels of baseline and candidate, with their commits
    day: str  # ISO 8601
    command: str  # repeats the verification
    items: tuple[CardItem, ...]
    trainers: tuple[str, ...] = ()  # e.g. "maxview 64bc92418" or "maxtext 0.2.4"; two if the arms differ
    checks: tuple[ReferenceCheck, ...] = ()  # comparisons with independent implementations
    records: dict[str, str] = {}  # path of a file in the store -> SHA-256 of its content


class Card(Frozen):
    """The rows of all cases, with a signature that detects later changes."""

    version: int = 2
    rows: tuple[CardRow, ...]
    sources: dict[str, dict[str, str]] = {}  # commit of maxview's trainer -> file -> digest of its code
    signature: str = ""  # SHA-256 of all other fields


UNCOMMITTED = "uncommitted changes"


def key_of(row: CardRow, item: CardItem) -> tuple[str, ...]:
    """Return (comparison, case, target, name), which identifies an item in all versions of a card."""
    return row.comparison, row.case, row.target, item.name
