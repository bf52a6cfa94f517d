"""The result of comparing one case, with everything that surfaces show."""

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
    """One line of a chart."""

    metric: str  # "loss" or "step_time_s"
    arm: str
    run_name: str
    steps: tuple[int, ...]
    values: tuple[float | None, ...]
    lines: tuple[int, ...]
    offsets: tuple[int, ...]


class ArmSummary(Frozen):
    """One side of the comparison."""

    name: str
    label: str
    branch: str | None
    commit: str | None
    jax: str | None
    exit_code: int | None
    cause_of_death: LogError | None
    started: str | None
    runs: tuple[str, ...]  # run names
    logs: tuple[str, ...]  # paths
    checkpoints: tuple[CheckpointEvent, ...] = ()
    restores: tuple[Restore, ...] = ()  # checkpoints from which its runs continued
    proofs: tuple[CheckpointProof, ...] = ()
    lives: tuple[CheckpointLife, ...] = ()  # of the same checkpoints: every save of its runs
    coverage: Coverage = Coverage()
    spans: tuple[tuple[int, int], ...] = ()  # byte range of each run in its log
    environment: Environment = Environment()  # versions, devices and mesh of the first run
    attention: str | None = None  # our trainer's attention kernel and the reason for it
    programs: tuple[str, ...] = ()  # files with its compiled step in the first run's folder

    @property
    def ref(self) -> str:
        """The branch or tag that the user named, else the arm's name."""
        return self.label.split(" · ", 1)[0]

    @property
    def has_died(self) -> bool:
        """Whether one of its runs ended badly."""
        return self.cause_of_death is not None or RunEnd(exit_code=self.exit_code).has_died


class ComparisonRecord(Frozen):
    """The result for one case; surfaces show this record and compute nothing."""

    id: str
    comparison: str
    case: str
    target: str
    created: str
    question: str
    baseline: ArmSummary
    candidate: ArmSummary
    verdict: Verdict
    headline: str  # one sentence with the verdict and its reason
    findings: tuple[Finding, ...]
    rows: tuple[MetricDiff, ...]
    absent: tuple[str, ...] = ()  # titles of rows without a value in either arm; not in `rows`
    floors: tuple[Floor, ...] = ()
    divergence: FirstDivergence | None = None
    curves: tuple[Curve, ...] = ()
    stalls: dict[str, tuple[Stall, ...]] = {}  # arm -> stalls
    next_command: str = ""
    parities: tuple[Parity, ...] = ()  # the loss first
    times: tuple[TimeAccount, ...] = ()  # one per run whose log has step times, or that died
    equal_by_construction: str = ""  # why the arms cannot differ in time; empty: they can
    commits: dict[str, tuple[Commit, ...]] = {}  # arm -> its commits that the other arm lacks, the newest first
    checkpoints: CheckpointDifference | None = None  # of the last common step, if any
    aa: bool = False  # a control: both arms should be equal
    programs: ProgramComparison | None = None  # of two compiled steps, if nothing was trained
    explanation: Explanation | None = None  # of the difference, if it was examined

    @property
    def has_died(self) -> bool:
        """Whether a run of either arm ended badly."""
        return self.baseline.has_died or self.candidate.has_died
