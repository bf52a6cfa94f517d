"""Records of blessed runs: accepted runs of one case on one target, which later runs are compared with."""

from configs.schema import Frozen
from tasks.records.run import RunRecord


class Blessing(Frozen):
    """One acceptance of new runs as the baseline."""

    day: str  # ISO 8601
    reason: str  # why the new values are accepted
    commit: str | None  # the trainer's commit in the blessed runs; None if unknown
    values: dict[str, tuple[str, str]] = {}  # title of each changed row -> (old, new) value as text


class Baseline(Frozen):
    """The content of a baseline file: the newest blessed runs in full, and the history of blessings."""

    comparison: str
    case: str
    target: str
    blessings: tuple[Blessing, ...]  # the newest last
    shown: dict[str, str]  # title of a row -> the newest blessed value as text
    runs: tuple[RunRecord, ...]
