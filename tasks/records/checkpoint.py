"""A checkpoint's life as a log tells it, and the proof that one is really there."""

from typing import Any, Literal

from pydantic import model_validator

from configs.schema import Frozen
from tasks.records.proof_levels import Level, reached
from tasks.records.source import run_number

# how far a checkpoint came in its life, as far as the log of one host shows it; `not_visible`: all that this host
# prints is there, and whether the checkpoint was committed only the primary host's log can say
CheckpointState = Literal[
    "announced", "blocking_done", "background_done", "committed", "validated", "restored", "not_visible", "failed"
]


class CheckpointEvent(Frozen):
    """One checkpoint's life as the log tells it.

    `committed` is True only when the log shows the commit, False when it shows that the run ended without one where
    it would have been visible, None when this host would not print it. `validated`: the log shows that every host came
    to the end of the save, which they do only after the commit.
    """

    step: int
    state: CheckpointState = "announced"
    path: str | None = None
    started: str | None = None  # ISO 8601
    blocking_s: float | None = None
    background_s: float | None = None
    total_s: float | None = None  # blocking and background together, where the log gives them as one
    committed: bool | None = None
    validated: bool = False
    validated_hosts: int | None = None  # whose array metadata the primary host found to agree
    arrays: int | None = None
    line: int
    offset: int
    committed_line: int | None = None
    committed_at: str | None = None  # ISO 8601, as the log dates that line
    validated_line: int | None = None
    restored_line: int | None = None  # where the same log tells that it was read back
    failed_line: int | None = None
    retired_line: int | None = None  # where the log tells that a checkpoint manager deleted it, to keep its newest ones
    run: int = run_number()

    @property
    def summary(self) -> str:
        """How far it came, in words, as every surface tells it."""
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
        """Readers that know only some of a checkpoint's life leave the state to what they do know."""
        if not isinstance(value, dict) or "state" in value:
            return value
        known: dict[str, CheckpointState] = {
            "committed": "committed", "background_s": "background_done", "blocking_s": "blocking_done",
        }  # fmt: skip
        return {**value, "state": next((state for key, state in known.items() if value.get(key)), "announced")}


class Restore(Frozen):
    """A checkpoint that was read back into the run: which step, from where, and the lines that tell it."""

    step: int | None  # None: parameters or a state from a path that names no step
    path: str | None = None
    origin: str = ""  # "this run", "persistent", "local", "parameters", "state": where the log says it is
    finished: bool = False  # the log shows its end, or training went on after it
    seconds: float | None = None
    line: int
    offset: int
    finished_line: int | None = None
    run: int = run_number()

    @property
    def summary(self) -> str:
        """What was read back, in words, as every surface tells it."""
        what = f"step {self.step}" if self.step is not None else self.origin or "a checkpoint"
        where = f" from {self.path}" if self.path else ""
        took = f" in {self.seconds:g} s" if self.seconds is not None else ""
        return f"{what}{where}{took}{'' if self.finished else ', not seen to finish'}"


class Problem(Frozen):
    """One thing that is wrong with a checkpoint: which check found it, in which file, and what to do."""

    check: Literal["commit", "metadata", "ranges", "manifest", "values"]
    path: str
    message: str


class CheckpointProof(Frozen):
    """What was verified of one checkpoint step, and when. `ok` only if every check that ran found nothing."""

    step: int | None
    path: str
    ok: bool
    checks: tuple[str, ...]  # those that ran, e.g. ("commit", "metadata", "ranges", "manifest")
    problems: tuple[Problem, ...] = ()
    arrays: int = 0
    files: int = 0
    bytes: int = 0
    manifest: str | None = None  # path of the crc32c manifest that was recorded or checked
    tree_digest: str | None = None  # hash over (path, shape, dtype) of every array: equal trees, equal digest
    seconds: float = 0.0
    verified_at: str = ""  # ISO 8601
    levels: tuple[Level, ...] = ()  # that were reached, in order
    timings: dict[str, float] = {}  # seconds of each check that ran
    begun_at: str | None = None  # ISO 8601, when the save began and when it was committed, as Orbax wrote them down
    committed_at: str | None = None
    retired: bool = False  # a checkpoint manager deleted it, to keep its newest ones: that is no failure
    run: int = run_number()

    @model_validator(mode="before")
    @classmethod
    def _levels_of_the_checks(cls, value: Any) -> Any:
        """Proofs that were recorded without their levels have those of the checks that ran."""
        if not isinstance(value, dict) or "levels" in value:
            return value
        problems = (Problem.model_validate(problem) for problem in value.get("problems", ()))
        return {**value, "levels": reached(value.get("checks", ()), {problem.check for problem in problems})}
