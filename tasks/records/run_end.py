"""The end of a run: exit code, cause of death, and the decision that follows from both."""

import re
from typing import Literal, Self

from configs.schema import Frozen
from tasks.records.source import run_number

DeathKind = Literal[
    "not_implemented", "device_oom", "host_oom", "preempted", "nan", "shape_mismatch", "disk_full", "storage",
    "configuration", "timeout", "killed", "cut_off", "other",
]  # fmt: skip
DEATH_WORDS: dict[DeathKind, str] = {
    "not_implemented": "not implemented",
    "device_oom": "out of memory on the device",
    "host_oom": "out of memory on the host",
    "preempted": "preempted or evicted",
    "nan": "NaN or infinite loss",
    "shape_mismatch": "shapes or shardings do not fit",
    "disk_full": "the disk is full",
    "storage": "storage failed",
    "configuration": "wrong configuration",
    "timeout": "timed out",
    "killed": "killed",
    "cut_off": "the log is cut off without an end",
    "other": "",
}
# a good end, a class of death, or unknown
RunFate = DeathKind | Literal["finished", "unknown"]


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
        return ": ".join(part for part in (self.words, self.type, *self._said) if part)

    @property
    def reason(self) -> str:
        """The class in words and the message, or the type if there is none, for a headline."""
        message, said = self._said
        message = re.sub(r"^[A-Z_]+: ", "", message) if self.words else message  # a status code repeats the class
        return ": ".join(part for part in (self.words, message or self.type, said) if part)

    @property
    def _said(self) -> tuple[str, str]:
        # pydantic's message only counts the errors; the next line names one
        first = self.detail.partition("\n")[0].strip() if self.type.endswith("ValidationError") else ""
        return self.message, first


class RunEnd(Frozen):
    """The end of a run, as its log shows it. All other records and surfaces read this decision."""

    exit_code: int | None = None
    fate: RunFate = "unknown"
    error: LogError | None = None

    @property
    def has_died(self) -> bool:
        """Whether the run ended badly: a non-zero exit code, or none and a cause of death.

        With exit code 0, only a message counts that the trainer stops early, e.g. because it is preempted.
        """
        if self.exit_code == 0:
            return self.error is not None and self.fate == self.error.kind
        return self.exit_code is not None or self.error is not None

    def died_of(self, error: LogError) -> Self:
        """Return the same record of a run that this error ended."""
        return self.model_copy(update={"error": error, "fate": error.kind})


def decide_fate(
    exit_code: int | None, error: LogError | None, *, has_all_steps: bool = False, is_cut_off: bool = False
) -> RunFate:
    """Return how a run ended in one word. An exit code outranks the steps, and these a log without an end.

    error: the cause of death. A run with exit code 0 has survived any other exception.
    """
    if error is not None:
        return error.kind
    if exit_code is not None:
        return "finished" if exit_code == 0 else "other"
    if has_all_steps:
        return "finished"
    return "cut_off" if is_cut_off else "unknown"
