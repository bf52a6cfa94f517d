"""What qualifies or blocks a verdict, with its evidence."""

from typing import Literal

from configs.schema import Frozen
from tasks.records.source import Source


class Evidence(Frozen):
    """What one arm shows for a finding."""

    arm: str
    value: str
    source: Source | None = None


class Finding(Frozen):
    """Something about the two arms that blocks or qualifies the verdict, or is only worth knowing."""

    kind: str  # e.g. "same-commit", "jax-version", "host-process", "incomplete-log", "died"
    effect: Literal["blocks", "qualifies", "note"]
    message: str
    evidence: tuple[Evidence, ...] = ()
