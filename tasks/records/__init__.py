"""Frozen pydantic records that the packages under tasks/ exchange and store, with log positions of logged values.

In: nothing: other packages make the records. Out: JSON that stays readable in later versions.
Read first: compared_case.py.
"""

from typing import TYPE_CHECKING

from configs.exports import import_on_use

if TYPE_CHECKING:
    from tasks.records.bisection import BisectedPoint, Bisection, FactorEffect, LedgerEntry, Mark
    from tasks.records.change import ChangeCoverage, ChangedCode, ChangedStatement, RanLines, UnseenLines
    from tasks.records.checkpoint_proof import (
        LEVELS,
        CheckpointEvent,
        CheckpointLife,
        CheckpointProof,
        CheckpointState,
        CrossRestore,
        Level,
        LifeSpan,
        Problem,
        Restore,
        highest,
        pair_saves,
        reached,
    )
    from tasks.records.compared_case import (
        ArmSummary,
        Better,
        ComparisonRecord,
        Curve,
        Decision,
        Evidence,
        Finding,
        FirstDivergence,
        Floor,
        GateResult,
        MetricDiff,
        Parity,
        Verdict,
    )
    from tasks.records.compared_checkpoints import ArrayDifference, ArrayRole, CheckpointDifference, ValueDifference
    from tasks.records.compiled import (
        CollectiveSum,
        CompiledProgram,
        CompileError,
        HeavyArray,
        InputArray,
        ProgramComparison,
        ProgramDifference,
        ProgramMemory,
        ProgramWork,
        Work,
    )
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
    from tasks.records.function import FunctionComparison, FunctionPower, ResultGap, RoundingBand, RoundingError
    from tasks.records.host_times import HostTimes, Span
    from tasks.records.json_numbers import metric_from_json, number_from_json, number_to_json, step_from_json
    from tasks.records.log_reading import (
        RANK_MEMORY_SCHEMA,
        STEP_SCHEMA,
        TIMER_SCHEMA,
        CheckpointCommitted,
        CheckpointStarted,
        Coverage,
        DeviceMemory,
        Environment,
        Flops,
        LogEvent,
        LogReading,
        Memory,
        ParameterArray,
        Parameters,
        RunEnded,
        RunReading,
        Stall,
        StepCompile,
        StepCompleted,
        UnreadLine,
        Wait,
    )
    from tasks.records.next_step import NextStep
    from tasks.records.night import CellResult, NightCell, NightChange, NightPlan, NightRecord, NightTwins
    from tasks.records.observation import LoopRecord, Observation, Root, TensorComparison
    from tasks.records.plan import (
        ArmOverrides,
        CodeVersion,
        Commit,
        Invocation,
        JobCause,
        RunFiles,
        RunHandle,
        RunPlan,
        SharedStart,
        StartedProcess,
        StoredHandle,
    )
    from tasks.records.program_times import ProgramTimes, TimeRatio
    from tasks.records.restored import ArrayPart, NotedArray, NotedState, Restored, RestoredArray, merge_notes
    from tasks.records.run import Baseline, Blessing, RunRecord, StartReport
    from tasks.records.run_end import DEATH_WORDS, DeathKind, LogError, RunFate, decide_fate
    from tasks.records.run_facts import (
        Measured,
        RunFacts,
        StepLevel,
        StepLevels,
        TimeAccount,
        TimePart,
        seconds_between,
    )
    from tasks.records.shared_fields import Source
else:
    __getattr__ = import_on_use(__name__, __file__)
