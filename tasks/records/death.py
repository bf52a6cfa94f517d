"""How a run ended, and the cause of its death, from its log."""

from typing import Literal

from configs.schema import Frozen
from tasks.records.source import run_number

DeathKind = Literal[
    "not_implemented", "device_oom", "host_oom", "preempted", "nan", "shape_mismatch", "storage", "configuration",
    "timeout", "killed", "cut_off", "other",
]  # fmt: skip
DEATH_WORDS: dict[DeathKind, str] = {
    "not_implemented": "not implemented",
    "device_oom": "out of memory on the device",
    "host_oom": "out of memory on the host",
    "preempted": "preempted or evicted",
    "nan": "NaN or infinite loss",
    "shape_mismatch": "shapes or shardings do not fit",
    "storage": "storage failed",
    "configuration": "wrong configuration",
    "timeout": "timed out",
    "killed": "killed",
    "cut_off": "the log is cut off without an end",
    "other": "",
}
# a good end, a class of death, or unknown
RunFate = Literal[
    "finished", "not_implemented", "device_oom", "host_oom", "preempted", "nan", "shape_mismatch", "storage",
    "configuration", "timeout", "killed", "cut_off", "other", "unknown",
]  # fmt: skip


class LogError(Frozen):
    """The cause of a run's death in its log: an exception, a signal, or a message that it stops."""

    type: str
    message: str
    line: int
    offset: int
    kind: DeathKind = "other"
    why: str = ""  # why this error and class were chosen, if the log shows several exceptions or none
    detail: str = ""  # the lines below the message
    run: int = run_number()

    @property
    def words(self) -> str:
        """The class in words; empty for `other`."""
        return DEATH_WORDS[self.kind]

    @property
    def summary(self) -> str:
        """The class in words, the type and the message, for all surfaces."""
        # pydantic's message only counts the errors; the next line names one
        said = self.detail.partition("\n")[0].strip() if self.type.endswith("ValidationError") else ""
        return ": ".join(part for part in (self.words, self.type, self.message, said) if part)
