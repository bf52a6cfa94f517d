"""Records of a run until its job ends: `RunPlan`, all its settings; `RunHandle`, to find its job again."""

from typing import Any

from configs.backends import BackendName, LaunchSettings
from configs.frozen import Frozen
from configs.verdict_rules import VerdictRules


class Commit(Frozen):
    """One commit of a trainer's repository."""

    sha: str
    time: str  # ISO 8601
    author: str
    subject: str


class ArmOverrides(Frozen):
    """The options of a request about its arms: refs and software, in place of the comparison's, and --aa."""

    baseline: str | None = None  # ref of the first arm; None: as in the file
    branch: str | None = None  # ref of the second arm; None: as in the file
    repository: str | None = None  # folder or address of both refs; None: as in the file
    software: tuple[str, ...] = ()  # "ARM:jax==0.11.0", "ARM:project" or "ARM:/path/to/python"
    aa: bool = False  # a control: both arms must be the same commit
    one_is_enough: bool = False  # the question is not about a difference: both arms may be the same commit


class CodeVersion(Frozen):
    """The code of an arm that is a ref or a working tree, and its distance from the other arm's code."""

    name: str  # as the user named it, or "your tree (layers.py and 2 more)"
    sha: str  # of its commit; of a working tree: of the commit made from it
    subject: str  # of the commit; of a working tree: of its HEAD
    found_as: str = ""  # origin/NAME, if git knows no NAME
    head: str = ""  # SHA of a working tree's HEAD; empty: this is a commit
    changed: tuple[str, ...] = ()  # files of a working tree with uncommitted changes
    left_out: int = 0  # of a commit that is HEAD: files of the working tree with uncommitted changes
    # as git prints it, of the uncommitted changes; of a candidate that is a commit, from the baseline's commit, of the
    # files that the trainer reads. Its end may be left out
    diff: str = ""
    ahead: int | None = None  # commits that the other arm lacks; None: unknown, e.g. at a remote address
    different: tuple[str, ...] | None = None  # files that differ from the other arm's; None: unknown
    read: int | None = None  # number of these files that the trainer reads

    @property
    def short(self) -> str:
        """The name with the commit's short hash: `feature 5d6e7f8a1`; of a working tree, which is none, the name."""
        return self.name if self.changed or self.name == self.sha[:9] else f"{self.name} {self.sha[:9]}"


WORK = "work"  # in a run's folder: its copy of the program


class RunFiles(Frozen):
    """Paths below a run's folder, the arguments that resume the run, and when it is ended."""

    checkpoints: str | None = "checkpoints"  # folder of the Orbax checkpoints; None: the run saves none
    metrics: str = "metrics.jsonl"  # the trainer's JSON lines, one object per step
    resume: tuple[str, ...] = ()  # arguments appended to the run's command if a checkpoint exists
    # the run starts in this folder of its own copy of the program, which is the folder WORK; None: it has no copy
    copy_at: str | None = None
    end_after: int | None = None  # calls of the step after which the run is ended; None: its command ends it


class Invocation(Frozen):
    """How one run is started: its arguments, the variables that its trainer needs, and its output files."""

    argv: tuple[str, ...]
    environment: dict[str, str] = {}  # the target's variables override these
    files: RunFiles = RunFiles()


class SharedStart(Frozen):
    """A run's part in a shared start: each run of the second arm begins with the state of a run of the first arm."""

    taken_from: str | None = None  # name of the run whose first state is loaded; None: this run saves its state


class Training:
    """The work of a run that trains. `Compiling` overrides what differs for a run that only compiles the step."""

    command = "compare"  # of maxview, which plans such runs
    suffix = ""  # after the arm in a run's name for display
    again = "finished before (--fresh trains again)"
    has_steps = True  # whether a run takes steps and saves checkpoints; if not, its log lines are its stages

    def count(self, plan: "RunPlan") -> int:
        """Return the number of units of a run's progress."""
        return int(plan.config["steps"])

    def describe(self, plan: "RunPlan") -> str:
        """Return the progress of a run in words."""
        return f"steps of {self.count(plan)}"

    def is_final(self, exit_code: int | None) -> bool:
        """Return whether repeating a run with this exit code would give the same result."""
        return exit_code == 0


class Compiling(Training):
    """The work of a run that compiles the training step ahead of time for a topology."""

    command = "preflight"
    suffix = " compile"
    again = "compiled before (--fresh compiles again)"
    has_steps = False

    def count(self, plan: "RunPlan") -> int:
        """Return 1: a compile is done or not."""
        return 1

    def describe(self, plan: "RunPlan") -> str:
        """Return the progress of a run in words."""
        return f"compiled for {plan.compiles_for}"

    def is_final(self, exit_code: int | None) -> bool:
        """Return whether the compile succeeded, or the compiler refused the program."""
        return exit_code in (0, 1)


class RunPlan(Frozen):
    """All settings of one run, resolved before its launch."""

    comparison: str
    case: str
    arm: str
    repeat: int  # number of the run within its arm, from 0
    trainer: str  # its name in configs/trainers.py
    target: str  # name of the target in configs/targets
    backend: BackendName
    config: dict[str, Any]  # the trainer's config: key -> value
    origins: dict[str, str]  # config key -> where its value was set: "configs/base.yml:12" or "command line"
    commit: str | None  # the trainer's commit; None if unknown, e.g. for a run in an image
    dirty: bool  # whether the trainer's checkout has uncommitted changes
    versions: dict[str, str]  # package -> version that the run imports; also "trainer source" -> digest
    environment: dict[str, str]  # variables that the launcher sets
    passed_on: tuple[str, ...] = ()  # name patterns of the caller's variables that the run inherits
    argv: tuple[str, ...]  # the command and its arguments
    time_limit_s: int  # a longer run is stopped
    run_name: str  # unique name of the run in the store
    directory: str  # the run's folder in the store
    identity: str  # hex digest of the result's inputs; a later request with an equal one reuses or resumes this run
    ref: str | None = None  # branch, tag or commit that the user named; it resolved to `commit`
    tree: str = ""  # git's hash of the checkout's files: runs of equal files are one run; empty: no checkout
    version: CodeVersion | None = None  # of the checkout, for display; None: no checkout
    repository: str | None = None  # repository that contains `ref`; None: the checkout of maxview itself
    commits: tuple[Commit, ...] = ()  # ancestors of `commit` that are not in the other arm, the newest first
    checkout: str | None = None  # working folder with the source at `ref`; None: the trainer was not checked out
    code: str = ""  # digest of the checkout's code without comments and local names; empty: unknown
    software: tuple[str, ...] = ()  # declared differences from the other arm: packages, a Python, image or command
    aa: bool = False  # whether the comparison is an A/A control, whose arms should be equal
    rules: VerdictRules | None = None  # the rules of the verdict, read at the time of the request
    launch: LaunchSettings | None = None  # the backend's settings; None for a job on this machine
    files: RunFiles = RunFiles()
    compiles_for: str | None = None  # topology if the step is only compiled; None: the run trains
    start: SharedStart | None = None  # None: the start is not shared
    against: str = ""  # place of the blessed runs that replace the first arm's; empty: the first arm is trained
    blessed: str = ""  # path of the baseline file that contains this run; empty: not a blessed run
    step: tuple[str, ...] = ()  # the jitted functions of the step, the first of which begins it; empty: they are found
    start_folder: str | None = None  # folder of a custom trainer's program; None for other trainers

    @property
    def source(self) -> str | None:
        """The folder with the source that the run executes: its checkout, or its own copy; None if not checked out."""
        return self.checkout if self.files.copy_at is None else f"{self.directory}/{WORK}"

    @property
    def work(self) -> Training:
        """What the run does: it trains, or it only compiles the step."""
        return Compiling() if self.compiles_for else Training()


class StartedProcess(Frozen):
    """A process that leads a session. Its start time distinguishes it from a later process with the same pid."""

    pid: int
    created: float  # start time in seconds since the boot on Linux, else since 1970
    boot: str = ""  # the machine's boot id; empty if not Linux


class RunHandle(Frozen):
    """The data for attaching to a run after the flow that launched it died. Each backend adds its own fields."""

    backend: BackendName
    job_name: str  # name of the job on its platform
    log: str  # path of the collected log


class JobCause(Frozen):
    """The platform's reason for ending a job, e.g. type "Preempted"."""

    type: str
    message: str
