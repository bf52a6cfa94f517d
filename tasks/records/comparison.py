"""The record of comparing one case, with all contents of the page and the terminal output."""

from configs.schema import Frozen
from tasks.records.checkpoint import CheckpointEvent, CheckpointProof, Restore
from tasks.records.checkpoint_difference import CheckpointDifference
from tasks.records.checkpoint_life import CheckpointLife
from tasks.records.coverage import Coverage, Stall
from tasks.records.environment import Environment
from tasks.records.equality import FirstDivergence, Floor, Parity
from tasks.records.explanation import Explanation
from tasks.records.finding import Finding
from tasks.records.metric_diff import MetricDiff, Verdict
from tasks.records.plan import Commit
from tasks.records.program_work import ProgramComparison
from tasks.records.run_end import LogError, RunEnd
from tasks.records.times import TimeAccount


class Curve(Frozen):
    """The curve of one metric over the steps of one run; the four tuples have one entry per step."""

    metric: str  # "loss" or "step_time_s"
    arm: str  # name of the arm
    run_name: str
    steps: tuple[int, ...]
    values: tuple[float | None, ...]
    lines: tuple[int, ...]  # line of each step in the log; 0: unknown
    offsets: tuple[int, ...]  # byte offset of that line


class ArmSummary(Frozen):
    """One arm of a comparison, over all of its runs. None: unknown."""

    name: str
    label: str  # for display, e.g. "linen · 147168c3a"
    branch: str | None
    commit: str | None
    jax: str | None  # version
    exit_code: int | None
    cause_of_death: LogError | None
    started: str | None  # ISO 8601
    runs: tuple[str, ...]  # run names
    logs: tuple[str, ...]  # path of each run's log
    checkpoints: tuple[CheckpointEvent, ...] = ()
    restores: tuple[Restore, ...] = ()  # restores from which its runs continued
    proofs: tuple[CheckpointProof, ...] = ()
    lives: tuple[CheckpointLife, ...] = ()  # every save of its runs over time
    coverage: Coverage = Coverage()
    spans: tuple[tuple[int, int], ...] = ()  # byte range [start, end) of each run in its log
    environment: Environment = Environment()  # versions, devices and mesh of the first run
    attention: str | None = None  # attention kernel and the reason for it; only of maxview's trainer
    programs: tuple[str, ...] = ()  # names of files with the compiled step, in the first run's folder

    @property
    def ref(self) -> str:
        """The branch or tag that the user named, else the arm's name."""
        return self.label.split(" · ", 1)[0]

    @property
    def has_died(self) -> bool:
        """Whether a run of this arm ended badly."""
        return self.cause_of_death is not None or RunEnd(exit_code=self.exit_code).has_died


class ComparisonRecord(Frozen):
    """The result of comparing one case. Pages and terminal output show it and compute nothing."""

    id: str
    comparison: str
    case: str
    target: str
    created: str  # ISO 8601
    question: str  # that the comparison answers
    baseline: ArmSummary
    candidate: ArmSummary
    verdict: Verdict
    headline: str  # one sentence with the verdict and its reason
    findings: tuple[Finding, ...]
    rows: tuple[MetricDiff, ...]
    absent: tuple[str, ...] = ()  # titles of rows that are omitted, because neither arm has a value
    floors: tuple[Floor, ...] = ()
    divergence: FirstDivergence | None = None  # None: no step differs
    curves: tuple[Curve, ...] = ()
    stalls: dict[str, tuple[Stall, ...]] = {}  # arm -> stalls
    next_command: str = ""  # the command to type next; empty: none
    parities: tuple[Parity, ...] = ()  # the loss first
    times: tuple[TimeAccount, ...] = ()  # one per run with step times, or that died
    equal_by_construction: str = ""  # why the arms' times cannot differ; empty: they can
    commits: dict[str, tuple[Commit, ...]] = {}  # arm -> its commits that are not in the other arm, the newest first
    checkpoints: CheckpointDifference | None = None  # at the last common step; None without one
    aa: bool = False  # whether this is an A/A control, whose arms should be equal
    programs: ProgramComparison | None = None  # None unless the arms were compiled and not trained
    explanation: Explanation | None = None  # causes of the difference; None if not examined

    @property
    def has_died(self) -> bool:
        """Whether a run of either arm ended badly."""
        return self.baseline.has_died or self.candidate.has_died
