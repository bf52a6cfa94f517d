"""A checkpoint's events in a log, and the proof that the checkpoint exists."""

from typing import Any, Literal

from pydantic import model_validator

from configs.schema import Frozen
from tasks.records.proof_levels import Level, reached
from tasks.records.source import run_number

# the last state that one host's log shows; `not_visible`: this host printed all it can, and only the primary host's log
# can show the commit
CheckpointState = Literal[
    "announced", "blocking_done", "background_done", "committed", "validated", "restored", "not_visible", "failed"
]


class CheckpointEvent(Frozen):
    """The events of one checkpoint in a log.

    `committed`: True if the log shows the commit, False if the run ended without a commit that this host would have
    printed, None if this host does not print commits. `validated`: the log shows that every host finished the save,
    which happens only after the commit.
    """

    step: int
    state: CheckpointState = "announced"
    path: str | None = None
    started: str | None = None  # ISO 8601
    blocking_s: float | None = None
    background_s: float | None = None
    total_s: float | None = None  # blocking and background together, if the log prints only their sum
    committed: bool | None = None
    validated: bool = False
    validated_hosts: int | None = None  # number of hosts with matching array metadata, checked by the primary host
    arrays: int | None = None
    line: int
    offset: int
    committed_line: int | None = None
    committed_at: str | None = None  # ISO 8601, from the line's prefix
    validated_line: int | None = None
    restored_line: int | None = None  # line of its restore in the same log
    failed_line: int | None = None
    retired_line: int | None = None  # line of its deletion by a checkpoint manager, which keeps only the newest
    run: int = run_number()

    @property
    def summary(self) -> str:
        """The state in words, for all surfaces."""
        words = {
            "announced": "announced", "blocking_done": "blocking part done", "background_done": "background part done",
            "committed": "committed", "validated": "committed, over on all hosts", "restored": "committed, read back",
            "not_visible": "commit not visible from this host", "failed": "failed",
        }[self.state]  # fmt: skip
        if self.state == "restored" and not self.committed:
            words = "read back, so committed"
        if self.committed is False and self.state != "failed":
            words += ", never committed"
        if self.state == "not_visible" and self.validated:
            words += ", over on all hosts"
        if self.retired_line is not None:
            words += ", retired"
        return words

    @model_validator(mode="before")
    @classmethod
    def _state_of_the_rest(cls, value: Any) -> Any:
        """Derive the state from the other fields for readers that do not set it."""
        if not isinstance(value, dict) or "state" in value:
            return value
        known: dict[str, CheckpointState] = {
            "committed": "committed", "background_s": "background_done", "blocking_s": "blocking_done",
        }  # fmt: skip
        return {**value, "state": next((state for key, state in known.items() if value.get(key)), "announced")}


class Restore(Frozen):
    """A restored checkpoint: step, path, and lines in the log."""

    step: int | None  # None if the path of parameters or state names no step
    path: str | None = None
    origin: str = ""  # "this run", "persistent", "local", "parameters", "state", by the log
    finished: bool = False  # the log shows its end, or steps follow it
    seconds: float | None = None
    line: int
    offset: int
    finished_line: int | None = None
    run: int = run_number()

    @property
    def summary(self) -> str:
        """The restore in words, for all surfaces."""
        what = f"step {self.step}" if self.step is not None else self.origin or "a checkpoint"
        where = f" from {self.path}" if self.path else ""
        took = f" in {self.seconds:g} s" if self.seconds is not None else ""
        return f"{what}{where}{took}{'' if self.finished else ', not seen to finish'}"


class Problem(Frozen):
    """One problem of a checkpoint: the check that found it, the file, and the remedy."""

    check: Literal["commit", "metadata", "ranges", "manifest", "values"]
    path: str
    message: str


class CheckpointProof(Frozen):
    """The verification of one checkpoint step. `ok`: no check that ran found a problem."""

    step: int | None
    path: str
    ok: bool
    checks: tuple[str, ...]  # checks that ran, e.g. ("commit", "metadata", "ranges", "manifest")
    problems: tuple[Problem, ...] = ()
    arrays: int = 0
    files: int = 0
    bytes: int = 0
    manifest: str | None = None  # path of the crc32c manifest that was recorded or checked
    tree_digest: str | None = None  # hash over (path, shape, dtype) of every array: equal trees, equal digest
    seconds: float = 0.0
    verified_at: str = ""  # ISO 8601
    levels: tuple[Level, ...] = ()  # reached, in order
    timings: dict[str, float] = {}  # seconds of each check that ran
    begun_at: str | None = None  # ISO 8601, begin and commit of the save, recorded by Orbax
    committed_at: str | None = None
    retired: bool = False  # deleted by a checkpoint manager that keeps only the newest: not a failure
    run: int = run_number()

    @model_validator(mode="before")
    @classmethod
    def _levels_of_the_checks(cls, value: Any) -> Any:
        """Derive the levels of older proofs from their checks."""
        if not isinstance(value, dict) or "levels" in value:
            return value
        problems = (Problem.model_validate(problem) for problem in value.get("problems", ()))
        return {**value, "levels": reached(value.get("checks", ()), {problem.check for problem in problems})}
