"""The blessed runs of one case on one target, kept in a repository as the baseline of later runs."""

from configs.schema import Frozen
from tasks.records.run import RunRecord


class Blessing(Frozen):
    """One acceptance of new values."""

    day: str  # ISO 8601
    reason: str
    commit: str | None  # of the blessed runs
    values: dict[str, tuple[str, str]] = {}  # title of a row -> the old and the new value, as surfaces show them


class Baseline(Frozen):
    """A baseline file: the newest blessed runs in full, and all blessings, the newest last."""

    comparison: str
    case: str
    target: str
    blessings: tuple[Blessing, ...]
    shown: dict[str, str]  # title of a row -> the newest blessed value
    runs: tuple[RunRecord, ...]
