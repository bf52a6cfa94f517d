"""The records that the steps exchange: frozen, each defined once, with the log positions of their values."""

from tasks.records.baseline import Baseline, Blessing
from tasks.records.bisection import BisectedPoint, Bisection, Corner, LedgerEntry, Mark
from tasks.records.checkpoint import CheckpointEvent, CheckpointProof, CheckpointState, Problem, Restore
from tasks.records.checkpoint_difference import ArrayDifference, ArrayRole, CheckpointDifference, ValueDifference
from tasks.records.checkpoint_life import CheckpointLife, LifeSpan, pair_saves
from tasks.records.comparison import ArmSummary, ComparisonRecord, Curve
from tasks.records.compiled import CompiledProgram, CompileError, Fingerprints, InputArray, ProgramMemory, StepCompile
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
from tasks.records.facts import Measured, RunFacts, StepLevel, StepLevels
from tasks.records.finding import Evidence, Finding
from tasks.records.handle import JobCause, RunHandle, StartedProcess, StoredHandle
from tasks.records.json_numbers import number_from_json, number_to_json, rows_from_json
from tasks.records.log_events import (
    CheckpointCommitted,
    CheckpointStarted,
    LogEvent,
    RunEnded,
    StepCompleted,
)
from tasks.records.metric import Better, Decision, MetricDiff, Verdict
from tasks.records.observation import Observation, ObservedArray, OnlyHere, Root, TensorComparison
from tasks.records.plan import Commit, RunFiles, RunPlan, SharedStart
from tasks.records.program_work import (
    CollectiveSum,
    HeavyArray,
    ProgramComparison,
    ProgramDifference,
    ProgramWork,
    Work,
)
from tasks.records.proof_levels import LEVELS, Level, LevelMeaning, highest, reached
from tasks.records.reading import RANK_MEMORY_SCHEMA, STEP_SCHEMA, TIMER_SCHEMA, LogReading, RunReading
from tasks.records.run import RunRecord
from tasks.records.run_end import DEATH_WORDS, DeathKind, LogError, RunEnd, RunFate, decide_fate
from tasks.records.source import Source
from tasks.records.start_report import StartReport
from tasks.records.times import TimeAccount, TimePart, seconds_between

__all__ = [
    "DEATH_WORDS",
    "LEVELS",
    "RANK_MEMORY_SCHEMA",
    "STEP_SCHEMA",
    "TIMER_SCHEMA",
    "ArmSummary",
    "ArrayDifference",
    "ArrayRole",
    "Baseline",
    "Better",
    "BisectedPoint",
    "Bisection",
    "Blessing",
    "CheckpointCommitted",
    "CheckpointDifference",
    "CheckpointEvent",
    "CheckpointLife",
    "CheckpointProof",
    "CheckpointStarted",
    "CheckpointState",
    "CodeLine",
    "CollectiveSum",
    "Commit",
    "ComparisonRecord",
    "CompileError",
    "CompiledProgram",
    "Corner",
    "Coverage",
    "CrossRestore",
    "Curve",
    "DeathKind",
    "Decision",
    "DeviceMemory",
    "Environment",
    "Evidence",
    "Explanation",
    "Finding",
    "Fingerprints",
    "FirstDivergence",
    "Floor",
    "Flops",
    "HeavyArray",
    "InputArray",
    "InputDifference",
    "JobCause",
    "LedgerEntry",
    "Level",
    "LevelMeaning",
    "LifeSpan",
    "LiveBuffer",
    "LogError",
    "LogEvent",
    "LogReading",
    "Mark",
    "Measured",
    "Memory",
    "MemoryExplanation",
    "MetricDiff",
    "Observation",
    "ObservedArray",
    "OnlyHere",
    "OperationDifference",
    "ParameterArray",
    "Parameters",
    "Parity",
    "Problem",
    "ProgramAnswer",
    "ProgramComparison",
    "ProgramDifference",
    "ProgramExplanation",
    "ProgramMemory",
    "ProgramWork",
    "Restore",
    "Root",
    "RunEnd",
    "RunEnded",
    "RunFacts",
    "RunFate",
    "RunFiles",
    "RunHandle",
    "RunPlan",
    "RunReading",
    "RunRecord",
    "SharedStart",
    "Source",
    "Stall",
    "StartReport",
    "StartedProcess",
    "StepCompile",
    "StepCompleted",
    "StepLevel",
    "StepLevels",
    "StoredHandle",
    "TensorComparison",
    "TimeAccount",
    "TimeDifference",
    "TimeExplanation",
    "TimePart",
    "UnreadLine",
    "ValueDifference",
    "Verdict",
    "Wait",
    "Work",
    "decide_fate",
    "highest",
    "number_from_json",
    "number_to_json",
    "pair_saves",
    "reached",
    "rows_from_json",
    "seconds_between",
]
