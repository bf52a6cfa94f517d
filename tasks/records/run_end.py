"""Records of a run's end: exit code, cause of death, and the outcome that follows from them."""

import re
from typing import Literal, Self

from configs.frozen import Frozen
from tasks.records.shared_fields import run_number

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
# the outcome of a run: a good end, a kind of death, or unknown
RunFate = DeathKind | Literal["finished", "unknown"]


class LogError(Frozen):
    """An error in a run's log: an exception, a signal, or a message that the trainer stops.

    It is the cause of the run's death, or an exception that the run survived.
    """

    type: str  # class of the exception, or name of the signal
    message: str
    line: int  # 1-based; line of the message in the log
    offset: int  # byte offset of that line
    kind: DeathKind = "other"
    why: str = ""  # why this error and kind were chosen, if the log shows several exceptions or none
    detail: str = ""  # the lines below the message
    place: str = ""  # the traceback's last frame in the run's checkout: "model/layers.py:32 in norm"; empty: unknown
    run: int = run_number()

    @property
    def words(self) -> str:
        """The kind in words; empty for `other`."""
        return DEATH_WORDS[self.kind]

    @property
    def summary(self) -> str:
        """The kind in words, the type, the message and, for pydantic, the first error."""
        return ": ".join(part for part in (self.words, self.type, *self._message_and_error) if part)

    @property
    def reason(self) -> str:
        """A shorter `summary` for headlines: the type is shown only if there is no message."""
        message, error = self._message_and_error
        message = re.sub(r"^[A-Z_]+: ", "", message) if self.words else message  # a status code repeats the kind
        return ": ".join(part for part in (self.words, message or self.type, error) if part)

    @property
    def _message_and_error(self) -> tuple[str, str]:
        # pydantic's message only counts the errors; the next line names the first error
        first = self.detail.partition("\n")[0].strip() if self.type.endswith("ValidationError") else ""
        return self.message, first


class RunEnd(Frozen):
    """The end of a run according to its log; the only place that decides whether a run died."""

    exit_code: int | None = None  # None if the log does not show it
    fate: RunFate = "unknown"
    error: LogError | None = None  # cause of death; None: survived, or unknown

    @property
    def has_died(self) -> bool:
        """Whether the run ended badly: the exit code is not 0, or is unknown and the log shows a cause of death.

        A run with exit code 0 died only if `fate` is its error's kind: it stopped early, e.g. it was preempted.
        """
        if self.exit_code == 0:
            return self.error is not None and self.fate == self.error.kind
        return self.exit_code is not None or self.error is not None

    def died_of(self, error: LogError) -> Self:
        """Return a copy of the record in which this error ended the run."""
        return self.replace(error=error, fate=error.kind)


def decide_fate(
    exit_code: int | None, error: LogError | None, *, has_all_steps: bool = False, lacks_end: bool = False
) -> RunFate:
    """Return the outcome of a run. Precedence: error, exit code, `has_all_steps`, `lacks_end`.

    error: the cause of death; None also if the log shows an exception that the run survived. has_all_steps: the log
    shows every planned step. lacks_end: the log does not end as logs of its format do after a good end.
    """
    if error is not None:
        return error.kind
    if exit_code is not None:
        return "finished" if exit_code == 0 else "other"
    if has_all_steps:
        return "finished"
    return "cut_off" if lacks_end else "unknown"
