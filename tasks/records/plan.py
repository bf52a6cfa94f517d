"""One run, fully resolved, before it is launched."""

from typing import Any, Literal

from configs.launch import Xpk
from configs.schema import Frozen
from configs.verdict_rules import VerdictRules

BackendName = Literal["local", "replay", "xpk"]


class Commit(Frozen):
    """One commit of a trainer's repository."""

    sha: str
    time: str  # ISO 8601
    author: str
    subject: str


class RunFiles(Frozen):
    """Where inside its folder a run leaves what is read of it, and what is said to it so that it goes on from there."""

    checkpoints: str | None = "checkpoints"  # the folder of Orbax checkpoints; None: it saves none
    metrics: str = "metrics.jsonl"
    resume: tuple[str, ...] = ()  # further words of its command once a checkpoint is there


class RunPlan(Frozen):
    """One run, fully resolved. `identity` hashes everything that decides its outcome, so that a rerun resumes it."""

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
    environment: dict[str, str]  # what the launcher sets
    passed_on: tuple[str, ...] = ()  # patterns of the caller's variables that the run gets besides, and no others
    argv: tuple[str, ...]
    time_limit_s: int
    run_name: str
    directory: str  # the run's folder in the store
    identity: str  # hex
    ref: str | None = None  # the branch, tag or commit that the user named; `commit` is what it was
    repository: str | None = None  # where `ref` was looked up, unless it is the checkout of this program
    commits: tuple[Commit, ...] = ()  # those that lead to `commit` and not to the other arm's, the last first
    checkout: str | None = None  # the folder with the trainer's source, which the run starts in; None: as installed
    software: tuple[str, ...] = ()  # what this arm was asked to run apart from the other, e.g. "jax==0.11.0"
    aa: bool = False  # one half of a declared A/A control: both arms are meant to be the same
    rules: VerdictRules | None = None  # what the comparison is judged by, as its files said when it was asked for
    xpk: Xpk | None = None  # the cluster that runs it, if the backend is xpk
    files: RunFiles = RunFiles()
    compiles_for: str | None = None  # the topology that its step is compiled for, and nothing is trained
    blessed: str = ""  # the baseline file that holds this run
    start_folder: str | None = None  # the folder in which a custom command starts, unless that is its checkout
