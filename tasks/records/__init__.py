"""Frozen pydantic records that the packages under tasks/ exchange and store. Values carry their log position."""

from tasks.records.baseline import Baseline, Blessing
from tasks.records.bisection import BisectedPoint, Bisection, FactorEffect, LedgerEntry, Mark
from tasks.records.checkpoint import CheckpointEvent, CheckpointProof, CheckpointState, Problem, Restore
from tasks.records.checkpoint_difference import ArrayDifference, ArrayRole, CheckpointDifference, ValueDifference
from tasks.records.checkpoint_life import CheckpointLife, LifeSpan, pair_saves
from tasks.records.comparison import ArmSummary, ComparisonRecord, Curve
from tasks.records.compiled import CompiledProgram, CompileError, InputArray, ProgramMemory, StepCompile
from tasks.records.coverage import Coverage, Stall, UnreadLine, Wait
from tasks.records.environment import DeviceMemory, Environment, Flops, Memory, ParameterArray, Parameters
from tasks.records.equality import CrossRestore, FirstDivergence, Floor, Parity
from tasks.records.explanation import (
    CodeLine,
    Explanation,
    InputDifference,
    LiveBuffer,
    MemoryExplanation,
    OperationDifference,
    ProgramAnswer,
    ProgramExplanation,
    TimeDifference,
    TimeExplanation,
)
from tasks.records.finding import Evidence, Finding
from tasks.records.handle import JobCause, RunHandle, StartedProcess, StoredHandle
from tasks.records.json_numbers import metric_from_json, number_from_json, number_to_json, step_from_json
from tasks.records.log_events import (
    CheckpointCommitted,
    CheckpointStarted,
    LogEvent,
    RunEnded,
    StepCompleted,
)
from tasks.records.metric_diff import Better, Decision, MetricDiff, Verdict
from tasks.records.observation import Observation, Root, TensorComparison
from tasks.records.plan import Commit, RunFiles, RunPlan, SharedStart
from tasks.records.program_work import (
    CollectiveSum,
    HeavyArray,
    ProgramComparison,
    ProgramDifference,
    ProgramWork,
    Work,
)
from tasks.records.proof_levels import LEVELS, Level, highest, reached
from tasks.records.reading import RANK_MEMORY_SCHEMA, STEP_SCHEMA, TIMER_SCHEMA, LogReading, RunReading
from tasks.records.run import RunRecord
from tasks.records.run_end import DEATH_WORDS, DeathKind, LogError, RunFate, decide_fate
from tasks.records.run_facts import Measured, RunFacts, StepLevel, StepLevels
from tasks.records.source import Source
from tasks.records.start_report import StartReport
from tasks.records.times import TimeAccount, TimePart, seconds_between
