"""Records of findings, which qualify or block a comparison's verdict, and of their evidence."""

from typing import Literal

from configs.schema import Frozen
from tasks.records.source import Source


class Evidence(Frozen):
    """A value of one arm that a finding is based on, and its position in the log."""

    arm: str
    value: str
    source: Source | None = None


class Finding(Frozen):
    """A fact about the two arms that blocks or qualifies the verdict, or is only a note."""

    kind: str  # e.g. "same-commit", "jax-version", "host-process", "incomplete-log", "died"
    effect: Literal["blocks", "qualifies", "note"]
    message: str  # one sentence
    evidence: tuple[Evidence, ...] = ()
