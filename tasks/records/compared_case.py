"""Records of the comparison of one case: findings, rows of the table, equality, and all of them in `ComparisonRecord`.

A case is a set of config values to compare; both arms share it. An arm is one of the two compared versions: the
baseline or the candidate.
"""

from typing import Any, Literal

from pydantic import computed_field, model_validator

from configs.frozen import Frozen
from tasks.records.change import ChangeCoverage
from tasks.records.checkpoint_proof import CheckpointEvent, CheckpointLife, CheckpointProof, Restore
from tasks.records.compared_checkpoints import CheckpointDifference
from tasks.records.compiled import ProgramComparison
from tasks.records.data import DataComparison
from tasks.records.explanation import Explanation
from tasks.records.function import FunctionComparison
from tasks.records.host_times import HostTimes
from tasks.records.log_reading import Coverage, Environment, Stall
from tasks.records.loop_times import LoopTimes
from tasks.records.measurement import EarlierVerdict, EvidenceLine
from tasks.records.next_step import NextStep
from tasks.records.plan import CodeVersion, Commit
from tasks.records.program_times import ProgramTimes
from tasks.records.run_end import LogError, RunEnd
from tasks.records.run_facts import TimeAccount
from tasks.records.shared_fields import FORMAT, Format, Source


class Evidence(Frozen):
    """A value of one arm that a finding is based on, and its position in the log."""

    arm: str
    value: str
    source: Source | None = None


class Finding(Frozen):
    """A fact about the two arms that blocks or qualifies the verdict, or is only a note."""

    kind: str  # e.g. "same-commit", "jax-version", "host-process", "incomplete-log", "died"
    effect: Literal["blocks", "qualifies", "note"]
    message: str  # one sentence
    evidence: tuple[Evidence, ...] = ()
    claim: str = ""  # of a death with a known cause: the message without it


# "changed": the arms differ, and neither is better. "not judged": the row is only shown.
Verdict = Literal["same", "improved", "regressed", "changed", "unknown", "not judged"]
Better = Literal["higher", "lower", "equal"]


class Decision(Frozen):
    """The verdict on one metric and its basis. Fields are None or empty if they do not apply."""

    verdict: Verdict
    reason: str  # a sentence
    claim: str = ""  # the part of the reason that a later rule repeats; empty: all of it
    not_finite: bool = False  # whether NaN or infinite values decide
    threshold: float | None = None  # in the metric's unit
    threshold_text: str = ""  # e.g. "±2 %", "exact", "equal to 3 decimals"
    # candidate / baseline − 1 of a noisy metric, and the ends of its 99 % interval
    effect: float | None = None
    effect_low: float | None = None
    effect_high: float | None = None
    effect_text: str = ""  # e.g. "-6.6 % (-9.1 … -4.0)"; without noise "+10.6 %"
    effect_short: str = ""  # without its interval: "-6.6 %"
    level: str = ""  # the judged steps, for a time with several levels: "steady steps", "typical steps"
    evidence: str = ""  # the number of runs in words, e.g. "one run of each"
    p_value: float | None = None  # probability of such an effect if the arms are equal
    runs_wanted: int | None = None  # total runs per arm that would probably give a verdict; None: enough, or too many
    cost_text: str = ""  # cost of the additional runs


class MetricDiff(Decision):
    """One row of a comparison's table. Pages and terminal output show its `*_text` fields."""

    metric: str  # name of the metric
    title: str  # its name for display
    unit: str  # empty: none
    better: Better  # which values are better; "equal": any difference counts
    rule: str  # how the value was computed, e.g. "last step, 3 decimals"
    group: Literal["maxview", "ours"]  # "maxview": MaxView (another tool, for two logs) shows this metric too
    baseline: float | None  # None: no value, or not a number
    candidate: float | None
    baseline_text: str
    candidate_text: str
    difference: float | None  # candidate − baseline
    difference_text: str  # for display
    decimals: int | None = None  # of `difference_text`; None: no number is shown
    baseline_source: Source | None = None  # position of the value in the log; None: not from a log
    candidate_source: Source | None = None
    allowed: str = ""  # why the comparison's config allows this row to change; empty: it does not


class FirstDivergence(Frozen):
    """The first step at which a metric that should be equal differs."""

    metric: str  # as in `Parity`
    step: int
    baseline: str  # the value, as text
    candidate: str
    precision: str  # "3 decimals" or "float32, bit for bit"


class Parity(Frozen):
    """The step-by-step agreement of one deterministic metric over all runs of both arms."""

    metric: str  # "loss", or the key in the trainer's JSON lines or the log
    steps: int  # number of steps that all runs have
    runs: tuple[int, int]  # number of runs of the baseline and of the candidate
    precision: str  # "printed precision (3 decimals)" or "the last bit (float32)"
    first: FirstDivergence | None = None  # this and the following fields are None or 0 if no step differs
    last: int | None = None  # the last step that differs
    different: int = 0  # number of differing steps
    largest_step: int | None = None  # the step with `largest_gap`
    largest_gap: float | None = None  # distance between the nearest runs of the two arms; inf if one is NaN or infinite


class Floor(Frozen):
    """One level of the proof that two arms are equal."""

    name: Literal["same program", "same function", "same bits", "same checkpoint"]
    holds: bool | None  # whether the level was proved; False: disproved; None: not tried or unknown
    evidence: str
    same_text: bool = True  # False: equal programs with operations in another order, which may round differently


class Curve(Frozen):
    """One metric over the steps of one run; each of the four tuples has one entry per step."""

    metric: str  # "loss" or "step_time_s"
    arm: str  # name of the arm
    run_name: str
    steps: tuple[int, ...]
    values: tuple[float | None, ...]  # None: the log has no value for this step
    lines: tuple[int, ...]  # line of each step in the log; 0: unknown
    offsets: tuple[int, ...]  # byte offset of that line


class ArmSummary(Frozen):
    """One arm of a comparison. None: unknown.

    Fields with one value are of the arm's first run. If a run died, `exit_code` and `cause_of_death` are of the first
    run that died.
    """

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
        """The label's first part: the ref that the user named, the arm's name, or e.g. "blessed 2026-11-24"."""
        return self.label.split(" · ", 1)[0]

    @property
    def has_died(self) -> bool:
        """Whether a run of this arm ended badly."""
        return self.cause_of_death is not None or RunEnd(exit_code=self.exit_code).has_died


class Death(Frozen):
    """An arm that died."""

    message: str  # one sentence, with the cause
    claim: str = ""  # who died, and when; empty if the log names no cause


class DecidingRow(Frozen):
    """A row that decides the verdict."""

    metric: str
    shown: str  # its title with its effect or values: "Step time, steady +5.1 %"
    verdict: Verdict
    is_result: bool  # whether the row tells what was computed, not what it cost


class FailedCheck(Frozen):
    """A floor that does not hold although every judged row is the same."""

    name: str
    evidence: str


class Conclusion(Frozen):
    """The overall verdict: `died` decides, else `blocked`, else `uncovered` or `rows`, else the proof."""

    verdict: Verdict = "unknown"
    arms: tuple[str, str] = ("", "")  # labels of the baseline and of the candidate
    died: tuple[Death, ...] = ()
    blocked: str = ""  # the message of the first finding that blocks the verdict
    uncovered: str = ""  # why it is unknown whether the change ran
    rows: tuple[DecidingRow, ...] = ()
    by_one_run: bool = False  # whether one run of each arm decides a row
    host: str = ""  # explains a time difference of one program
    function: str = ""  # proof: both steps compute one function
    held: tuple[str, ...] = ()  # proof: the floors that hold
    failed: FailedCheck | None = None
    qualified: tuple[str, ...] = ()  # the messages of the findings that qualify the verdict
    note: Literal["", "one commit", "no file", "no file that is read"] = ""  # how little the code differs
    versions: tuple[str, ...] = ()  # names of both versions, for the note
    launched: bool = True  # False: a program does not fit, so nothing was launched
    not_tried: str = ""  # what an untrained comparison leaves out


class GateResult(Frozen):
    """Whether a comparison passes the gate of its command: the questions that count."""

    name: str  # "function,time=5%"
    status: Literal[0, 1, 3]  # exit status: passed, failed, undecided
    reason: str  # one clause per question


class ComparisonRecord(Frozen):
    """The result of comparing one case. Pages and terminal output show it and compute nothing."""

    format: Format = FORMAT
    id: str
    comparison: str
    case: str
    target: str
    created: str  # ISO 8601
    question: str  # the question that the comparison answers
    baseline: ArmSummary
    candidate: ArmSummary
    verdict: Verdict
    headline: str  # one sentence with the verdict and its reason
    conclusion: Conclusion = Conclusion()  # the same as fields
    findings: tuple[Finding, ...]
    rows: tuple[MetricDiff, ...]
    absent: tuple[str, ...] = ()  # titles of rows that are omitted, because neither arm has a value
    floors: tuple[Floor, ...] = ()
    divergence: FirstDivergence | None = None  # None: no step differs
    curves: tuple[Curve, ...] = ()
    stalls: dict[str, tuple[Stall, ...]] = {}  # arm -> stalls
    next_step: NextStep | None = None  # the most useful step after this; None: none
    parities: tuple[Parity, ...] = ()  # the loss first
    times: tuple[TimeAccount, ...] = ()  # one account per run with enough step times, or that died and has dates
    equal_by_construction: str = ""  # what makes both arms equal in program and host loop; empty: they may differ
    commits: dict[str, tuple[Commit, ...]] = {}  # arm -> its commits that are not in the other arm, the newest first
    code: dict[str, CodeVersion] = {}  # arm -> its version, if the arms are refs
    checkpoints: CheckpointDifference | None = None  # at the last common step; None without one
    trained: bool = True  # False: only the programs were compared, by experiments
    asked: tuple[str, ...] = ()  # the questions of an untrained comparison: "function", "time"; empty if it is trained
    not_tried: str = ""  # the end of an untrained comparison's headline: what its questions leave out
    aa: bool = False  # whether this is an A/A control, whose arms should be equal
    programs: ProgramComparison | None = None  # None unless the arms were compiled and not trained
    turns: ProgramTimes | None = None  # step times of both programs in turns; None: not tried
    loops: LoopTimes | None = None  # both loops in turns; None: not tried
    host: HostTimes | None = None  # both host loops without their program; None: not tried
    function: FunctionComparison | None = None  # both steps in float64; None if not tried
    coverage: ChangeCoverage | None = None  # what of the change was covered; None: the arms are no two checkouts
    data: DataComparison | None = None  # the batches of both recorded steps; None: not tried
    gate: GateResult | None = None  # None: every judged row counts
    took_s: float | None = None  # seconds from the first run or experiment to the verdict; None: unknown, or of logs
    evidence: tuple[EvidenceLine, ...] = ()  # all measurements and runs of the two versions, the oldest first
    earlier: tuple[EarlierVerdict, ...] = ()  # what the page told with less evidence, the oldest first
    explanation: Explanation | None = None  # causes of the difference; None if not examined

    @model_validator(mode="before")
    @classmethod
    def _leave_out_computed(cls, value: Any) -> Any:
        """Leave out `next_command`, which is stored for other programs."""
        return {key: one for key, one in value.items() if key != "next_command"} if isinstance(value, dict) else value

    @computed_field  # type: ignore[prop-decorator]
    @property
    def next_command(self) -> str:
        """The command to type next; empty: none."""
        return self.next_step.command if self.next_step is not None else ""

    def commit_in_clone(self, arm: ArmSummary) -> str | None:
        """Return the SHA of an arm's commit, and of a working tree that of its HEAD, which the user's clone has."""
        version = self.code.get(arm.name)
        return version.head if version is not None and version.head else arm.commit

    @property
    def has_died(self) -> bool:
        """Whether a run of either arm ended badly."""
        return self.baseline.has_died or self.candidate.has_died
