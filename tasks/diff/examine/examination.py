"""Defines an examination: what two arms show before any experiment, and the experiments that are still needed.

An arm is one of the two compared versions.
"""

from typing import Literal

from configs.frozen import Frozen
from configs.verdict_rules import VerdictRules
from tasks.diff.examine.arms import Arms
from tasks.diff.examine.circumstances import Circumstances
from tasks.diff.examine.parity import MetricParity
from tasks.records.change import ChangeCoverage
from tasks.records.compared_case import ArmSummary, Curve, Finding, FirstDivergence, Floor, MetricDiff, Parity
from tasks.records.compared_checkpoints import CheckpointDifference
from tasks.records.compiled import ProgramComparison
from tasks.records.log_reading import Stall
from tasks.records.observation import Observation
from tasks.records.plan import CodeVersion, Commit
from tasks.records.run_facts import TimeAccount

type Needed = Literal["time", "host", "function", "data"]  # an experiment that can change the verdict


class Subject(Frozen):
    """What is compared, by which rules."""

    id: str  # of its page
    comparison: str
    case: str
    target: str
    rules: VerdictRules
    aa: bool = False  # whether the arms should be equal
    code: dict[str, CodeVersion] = {}  # arm -> its version, if the arms are refs
    commits: dict[str, tuple[Commit, ...]] = {}  # arm -> its commits that are not in the other arm


class Shown(Frozen):
    """Fields of the comparison that pages draw, and that no verdict needs."""

    baseline: ArmSummary
    candidate: ArmSummary
    curves: tuple[Curve, ...] = ()
    stalls: dict[str, tuple[Stall, ...]] = {}
    times: tuple[TimeAccount, ...] = ()
    parities: tuple[Parity, ...] = ()
    divergence: FirstDivergence | None = None
    checkpoints: CheckpointDifference | None = None
    equal_by_construction: str = ""
    programs: ProgramComparison | None = None
    trained: bool = True
    asked: tuple[str, ...] = ()
    not_tried: str = ""


class Decided(Frozen):
    """The rows of a comparison, each with its decision."""

    rows: tuple[MetricDiff, ...]
    absent: tuple[str, ...] = ()  # titles of rows that are omitted, because neither arm has a value
    coverage: ChangeCoverage | None = None
    host: str = ""  # explains a time difference between arms that run one program; empty without one


class ExaminedRuns(Frozen):
    """What only trained runs show."""

    parities: tuple[MetricParity, ...]  # the loss first
    evaluations: tuple[MetricParity, ...]
    checkpoints: CheckpointDifference | None
    circumstances: Circumstances


class ExaminedSteps(Frozen):
    """What only recorded steps show."""

    observations: tuple[Observation, Observation]
    start_apart: bool  # whether the arms' trainers draw other first arrays, or a shared start replaces them
    drawn_anew: frozenset[tuple[str, str]]  # role and meaning of the arrays that two runs of the baseline draw anew


class Examination(Frozen):
    """What two arms show before any experiment."""

    subject: Subject
    arms: Arms
    findings: tuple[Finding, ...]  # in the order in which they were looked for
    floors: tuple[Floor, ...] = ()  # without "same function", which an experiment decides
    proved: bool = False  # whether all runs have one executable
    coverage: ChangeCoverage | None = None
    shown: Shown
    needed: frozenset[Needed] = frozenset()
    runs: ExaminedRuns | None = None
    steps: ExaminedSteps | None = None
    decided: Decided | None = None  # the rows, where they were decided already; an experiment decides them anew
