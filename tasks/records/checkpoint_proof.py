"""Records of checkpoints: saves and restores in a log, the proof that a saved checkpoint exists, and a save's life.

A level of proof is a verified property of a save. At the lowest level the log announces the save. At the highest the
other arm (compared version) has restored the checkpoint and trained on to the same losses, bit for bit.
"""

from collections.abc import Collection, Iterable
from typing import Any, Literal, NamedTuple

from pydantic import model_validator

from configs.frozen import Frozen
from tasks.records.shared_fields import run_number

Level = Literal[
    "announced",
    "committed",
    "structurally whole",
    "referentially whole",
    "content recorded",
    "content unchanged",
    "decoded and finite",
    "restored and continued",
]


class LevelMeaning(NamedTuple):
    """The meaning of a level of proof. `proves`: the verified property; `costs`: the data that the check reads."""

    proves: str
    costs: str


LEVELS: dict[Level, LevelMeaning] = {
    "announced": LevelMeaning("the trainer began to save", "nothing: read from the log"),
    "committed": LevelMeaning("the save was completed under this step's name", "a listing and two small files"),
    "structurally whole": LevelMeaning(
        "all metadata files exist and agree with each other and with the data", "the small files"
    ),
    "referentially whole": LevelMeaning(
        "every byte range that the index needs exists; its content is not read", "the index"
    ),
    "content recorded": LevelMeaning(
        "the crc32c of every file is recorded: any later change of a byte is detected", "one reading"
    ),
    "content unchanged": LevelMeaning("every file equals its recorded crc32c", "one reading of every file"),
    "decoded and finite": LevelMeaning(
        "every chunk can be decoded, and no value is NaN or infinite", "one reading, and decoding it"
    ),
    "restored and continued": LevelMeaning(
        "the other arm restored it and trained on with equal losses; with our trainer, to the same final state",
        "a restore and the steps after it",
    ),
}

_BY_CHECK: dict[str, Level] = {
    "commit": "committed",
    "metadata": "structurally whole",
    "ranges": "referentially whole",
    "manifest": "content recorded",
    "values": "decoded and finite",
}


def reached(checks: Collection[str], failed: Collection[str], *, recorded_before: bool = False) -> tuple[Level, ...]:
    """Return the levels of proof that the passed checks prove, the lowest first.

    Leaves out the levels of checks that did not run, and every level from the first failed check on.
    checks: names of the checks that ran. failed: names of the checks that found a problem. recorded_before: the
    manifest check compared the files with an existing manifest, which proves "content unchanged" too.
    """
    levels: list[Level] = []
    for check, level in _BY_CHECK.items():
        if check in failed:
            break
        if check in checks:
            levels.append(level)
            if level == "content recorded" and recorded_before:
                levels.append("content unchanged")
    return tuple(levels)


def highest(levels: Iterable[Level]) -> Level | None:
    """Return the highest of these levels; None if there are none."""
    found = set(levels)
    return next((level for level in reversed(LEVELS) if level in found), None)


# The last state of a save that one host's log shows. `not_visible`: the log shows the end of this host's part of the
# save, but no commit, because only the primary host prints commits.
CheckpointState = Literal[
    "announced", "blocking_done", "background_done", "committed", "validated", "restored", "not_visible", "failed"
]


class CheckpointEvent(Frozen):
    """One save of a checkpoint in a log.

    `committed`: True if the log shows the commit; False if it shows none, although the run has ended and this host
    prints commits; else None. `validated`: the log shows that every host finished the save, which happens only after
    the commit. Fields `*_s` are durations.
    """

    step: int
    state: CheckpointState = "announced"
    path: str | None = None  # None if not printed
    started: str | None = None  # start of the save, ISO 8601
    blocking_s: float | None = None  # seconds for which the save blocked training
    background_s: float | None = None  # seconds for which the save continued in the background
    total_s: float | None = None  # sum of blocking_s and background_s, if the log prints only the sum
    committed: bool | None = None
    validated: bool = False
    validated_hosts: int | None = None  # number of hosts with matching array metadata, checked by the primary host
    arrays: int | None = None  # number of saved arrays
    line: int  # first message of the save; this and all *_line fields are 1-based line numbers
    offset: int  # byte offset of `line`
    committed_line: int | None = None  # *_line: None if the log has no such message
    committed_at: str | None = None  # ISO 8601, from the prefix of that line
    validated_line: int | None = None
    restored_line: int | None = None  # line of a restore of this checkpoint in the same log
    failed_line: int | None = None
    retired_line: int | None = None  # deletion by a checkpoint manager, which keeps only the newest
    run: int = run_number()

    @property
    def summary(self) -> str:
        """The state in words."""
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
    def _derive_state(cls, value: Any) -> Any:
        """Derive a missing `state` from the other fields: some log parsers do not set it."""
        if not isinstance(value, dict) or "state" in value:
            return value
        known: dict[str, CheckpointState] = {
            "committed": "committed", "background_s": "background_done", "blocking_s": "blocking_done",
        }  # fmt: skip
        return {**value, "state": next((state for key, state in known.items() if value.get(key)), "announced")}


class Restore(Frozen):
    """One restore of a checkpoint in a log."""

    step: int | None  # None if the log shows only a path, and the path contains no step
    path: str | None = None  # None if not printed
    origin: str = ""  # "this run", "persistent", "local", "parameters" or "state"; empty: unknown
    finished: bool = False  # the log shows the end of the restore, or steps after it
    seconds: float | None = None  # None if not printed
    line: int  # first message of the restore
    offset: int  # byte offset of `line`
    finished_line: int | None = None  # None if the end is not printed
    run: int = run_number()

    @property
    def summary(self) -> str:
        """The restore in words."""
        what = f"step {self.step}" if self.step is not None else self.origin or "a checkpoint"
        where = f" from {self.path}" if self.path else ""
        took = f" in {self.seconds:g} s" if self.seconds is not None else ""
        return f"{what}{where}{took}{'' if self.finished else ', not seen to finish'}"


class CrossRestore(Frozen):
    """The result of a test in which one arm restores the other's checkpoint and continues training."""

    source: str  # name of the run that saved the checkpoint
    restored_step: int | None = None  # step of the checkpoint; None if none was chosen
    steps: int = 0  # number of steps trained after the restore
    holds: bool | None = None  # whether these steps have the losses of the saving run, bit for bit; None: unknown
    evidence: str


class Problem(Frozen):
    """One problem of a checkpoint: the check that found it, the file, and a message with the remedy, if any."""

    check: Literal["commit", "metadata", "ranges", "manifest", "values"]
    # Relative to the step's folder ("." is the folder itself), or the manifest's full path. Checks of a single item
    # return paths relative to the item's folder; `Verification` adds the item's path.
    path: str
    message: str  # shown after the path


class CheckpointProof(Frozen):
    """The result of verifying one checkpoint step. `ok`: the step exists and no check found a problem."""

    step: int | None  # None if the folder's name contains no number
    path: str  # of the step's folder
    ok: bool
    checks: tuple[str, ...]  # names of the checks that ran, e.g. ("commit", "metadata", "ranges", "manifest")
    problems: tuple[Problem, ...] = ()
    arrays: int = 0  # number of arrays
    files: int = 0  # number of files
    bytes: int = 0  # size of all files
    manifest: str | None = None  # path of the crc32c manifest that was written or checked; None: neither
    tree_digest: str | None = None  # SHA-256 of (path, shape, dtype) of all arrays; None: unreadable or no arrays
    seconds: float = 0.0  # duration of the verification
    verified_at: str = ""  # ISO 8601
    levels: tuple[Level, ...] = ()  # levels of proof that the step reached, the lowest first
    timings: dict[str, float] = {}  # name of a check -> its seconds
    begun_at: str | None = None  # start of the save, ISO 8601, as recorded by Orbax
    committed_at: str | None = None  # commit of the save, ISO 8601, as recorded by Orbax
    retired: bool = False  # deleted by a checkpoint manager that keeps only the newest checkpoints: no failure
    format: str | None = None  # name of a format other than Orbax's
    run: int = run_number()

    @property
    def is_only_counted(self) -> bool:
        """Whether the format is another one in which nothing can be proved: neither sound nor unsound."""
        return self.format is not None and not self.checks

    @property
    def is_sound(self) -> bool:
        """Whether at least one check ran, and none found a problem."""
        return self.ok and bool(self.checks)


type Save = tuple[CheckpointEvent | None, CheckpointProof | None]


class LifeSpan(Frozen):
    """One activity in the life of a checkpoint. `bytes_per_s` is None if it is unknown or no data is transferred."""

    part: str  # "blocking", "background", or the name of a check
    begin_s: float  # time, in seconds after the start of the run
    seconds: float  # duration
    bytes_per_s: float | None = None


class CheckpointLife(Frozen):
    """The life of one save of a step. `*_s`: times, in seconds after the run's start; None without dates."""

    step: int | None
    nth: int = 1  # 2 for the second save of the same step in a run, etc.
    overwritten: bool = False  # the run saved the step again later
    retired: bool = False  # deleted by a checkpoint manager that keeps only the newest
    announced_s: float | None = None
    committed_s: float | None = None
    spans: tuple[LifeSpan, ...] = ()
    levels: tuple[Level, ...] = ()  # levels of proof reached, the lowest first
    run: int = run_number()

    @property
    def level(self) -> Level | None:
        """The highest level of proof reached; None without any."""
        return highest(self.levels)


def pair_saves(events: Iterable[CheckpointEvent], proofs: Iterable[CheckpointProof]) -> list[Save]:
    """Return (save, proof or None) for each save in a log, in log order, then (None, proof) for the remaining proofs.

    The store contains only the last save of a step, so the newest proof belongs to the last save.
    """
    waiting = list(proofs)
    pairs: list[Save] = []
    for event in reversed(list(events)):
        fits = [p for p in waiting if (p.step, p.run) == (event.step, event.run) and _same_place(p, event)]
        if fits:
            waiting.remove(fits[-1])
        pairs.append((event, fits[-1] if fits else None))
    return [*reversed(pairs), *((None, proof) for proof in waiting)]


def _same_place(proof: CheckpointProof, event: CheckpointEvent) -> bool:
    """Return whether the proof and the save may be of one folder: one path ends with the other, or the log has no path.

    This check keeps equal step numbers of different runs apart.
    """
    if event.path is None:
        return True
    one, other = proof.path.rstrip("/"), event.path.rstrip("/")
    return one.endswith(other) or other.endswith(one)
