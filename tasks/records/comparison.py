"""The answer for one case, with everything that its surfaces draw."""

from configs.schema import Frozen
from tasks.records.checkpoint import CheckpointEvent, CheckpointProof, Restore
from tasks.records.checkpoint_difference import CheckpointDifference
from tasks.records.checkpoint_life import CheckpointLife
from tasks.records.coverage import Coverage, Stall
from tasks.records.death import LogError
from tasks.records.environment import Environment
from tasks.records.equality import FirstDivergence, Floor, Parity
from tasks.records.explanation import Explanation
from tasks.records.finding import Finding
from tasks.records.metric import MetricDiff, Verdict
from tasks.records.plan import Commit
from tasks.records.program_work import ProgramComparison
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
    restores: tuple[Restore, ...] = ()  # what its runs went on from
    proofs: tuple[CheckpointProof, ...] = ()
    lives: tuple[CheckpointLife, ...] = ()  # of the same checkpoints: every save of its runs
    coverage: Coverage = Coverage()
    spans: tuple[tuple[int, int], ...] = ()  # byte range of each run in its log
    environment: Environment = Environment()  # versions, devices and mesh of the first run
    attention: str | None = None  # the kernel of attention and why it is this one, of our own trainer
    programs: tuple[str, ...] = ()  # texts of its compiled step, files in the first run's folder; sources count them on

    @property
    def ref(self) -> str:
        """What was compared, whatever its commit: a branch or tag that somebody named, else the arm."""
        return self.label.split(" · ", 1)[0]

    @property
    def has_died(self) -> bool:
        """Whether one of its runs did not end well."""
        return self.cause_of_death is not None or self.exit_code not in (0, None)


class ComparisonRecord(Frozen):
    """The answer for one case: every surface draws this record and computes nothing."""

    id: str
    comparison: str
    case: str
    target: str
    created: str
    question: str
    baseline: ArmSummary
    candidate: ArmSummary
    verdict: Verdict
    headline: str  # one sentence that says the verdict and why
    findings: tuple[Finding, ...]
    rows: tuple[MetricDiff, ...]
    absent: tuple[str, ...] = ()  # titles of the rows that neither arm has a value for: they are not in `rows`
    floors: tuple[Floor, ...] = ()
    divergence: FirstDivergence | None = None
    curves: tuple[Curve, ...] = ()
    stalls: dict[str, tuple[Stall, ...]] = {}  # arm -> stalls
    next_command: str = ""
    parities: tuple[Parity, ...] = ()  # the loss first
    times: tuple[TimeAccount, ...] = ()  # one per run whose log has step times, or that died
    equal_by_construction: str = ""  # why the arms cannot differ in time; empty: they can
    commits: dict[str, tuple[Commit, ...]] = {}  # arm -> those that the other arm's commit lacks, the last first
    checkpoints: CheckpointDifference | None = None  # of the last step that both arms have; None: of none
    aa: bool = False  # both arms are meant to be the same: a control
    programs: ProgramComparison | None = None  # of two compiled steps, where nothing was trained
    explanation: Explanation | None = None  # why they differ, where that was looked into

    @property
    def has_died(self) -> bool:
        """Whether one of the arms did."""
        return self.baseline.has_died or self.candidate.has_died
