"""One run, fully resolved, before it is launched."""

from typing import Any

from pydantic import model_validator

from configs.launch import BACKENDS, BackendName, Launch
from configs.schema import Frozen
from configs.verdict_rules import VerdictRules


class Commit(Frozen):
    """One commit of a trainer's repository."""

    sha: str
    time: str  # ISO 8601
    author: str
    subject: str


class RunFiles(Frozen):
    """The files in a run's folder that maxview reads, and the arguments that resume the run."""

    checkpoints: str | None = "checkpoints"  # the folder of Orbax checkpoints; None: it saves none
    metrics: str = "metrics.jsonl"
    resume: tuple[str, ...] = ()  # further arguments of its command once a checkpoint exists


class SharedStart(Frozen):
    """A run's part in a start shared by both arms."""

    taken_from: str | None = None  # the run whose first state it takes; None: it provides its own


class RunPlan(Frozen):
    """One run, fully resolved. `identity` hashes all inputs of its result, so that a rerun resumes it."""

    comparison: str
    case: str
    arm: str
    repeat: int
    trainer: str
    target: str
    backend: BackendName
    config: dict[str, Any]
    origins: dict[str, str]  # key -> "configs/base.yml:12" or "command line"
    commit: str | None  # of the trainer's checkout; None outside a git checkout
    dirty: bool
    versions: dict[str, str]  # package -> version that the run will import
    environment: dict[str, str]  # set by the launcher
    passed_on: tuple[str, ...] = ()  # patterns of the caller's variables that the run gets too
    argv: tuple[str, ...]
    time_limit_s: int
    log_limit_mb: int = 10_000  # a local run with a larger log is stopped
    run_name: str
    directory: str  # the run's folder in the store
    identity: str  # hex
    ref: str | None = None  # the branch, tag or commit that the user named, resolved to `commit`
    repository: str | None = None  # of `ref`; None: the checkout of this program
    commits: tuple[Commit, ...] = ()  # ancestors of `commit` that the other arm lacks, the newest first
    checkout: str | None = None  # the folder with the trainer's source, in which the run starts; None: as installed
    code: str = ""  # digest of the checkout's code without comments and names of local variables; empty: unknown
    software: tuple[str, ...] = ()  # packages declared for this arm only, e.g. "jax==0.11.0"
    aa: bool = False  # part of a declared A/A control
    rules: VerdictRules | None = None  # the comparison's rules at the time of the request
    launch: Launch | None = None  # the settings of its backend; None for a job of this machine
    files: RunFiles = RunFiles()
    compiles_for: str | None = None  # topology, if the step is only compiled and nothing is trained
    start: SharedStart | None = None  # None: it starts with its own state
    blessed: str = ""  # the baseline file with this run
    start_folder: str | None = None  # working folder of a custom command, if not its checkout

    @model_validator(mode="before")
    @classmethod
    def _read_older(cls, value: Any) -> Any:
        """Read the records of older stores too, in which the settings' key was the backend's name."""
        if not isinstance(value, dict) or not value.keys() & BACKENDS.keys():
            return value
        section = value.get(value["backend"])
        if isinstance(section, dict):
            section = {"backend": value["backend"], **section}
        return {key: item for key, item in value.items() if key not in BACKENDS} | {"launch": section}
