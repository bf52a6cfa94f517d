"""Decides the floors of two arms (sides of a comparison): same program, function, bits, checkpoint.

A floor is the claim that all runs are equal in one respect; it is proved, refuted or unknown. `excuse_of` proves that
both arms have one program and one host loop, so that their times can differ only for a reason outside of them.
"""

import numpy as np
import polars as pl

from tasks.diff.examine.arms import Arms
from tasks.diff.examine.parity import varies_at
from tasks.metrics.merged_steps import last_of_each_step
from tasks.records.compared_case import Floor
from tasks.records.explanation import ProgramExplanation
from tasks.records.function import FunctionComparison
from tasks.records.plan import RunPlan
from tasks.records.run import RunRecord
from tasks.records.text import counted
from tasks.resolve.trainers import trainer_class
from tasks.resolve.trainers.trainer import SOURCE

COMPARED_COLUMNS = ("loss", "grad_norm", "param_norm")  # of the metrics files
OTHER_STEPS = "the arms did not train the same steps"
COMPILER_FLAGS = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")
ONE_SOURCE = "one program, source, config and software"
ONE_CODE = (
    "one program, config and software, and the sources differ only in comments, docstrings, layout or names of local "
    "variables"
)


def floors_of(arms: Arms, program: ProgramExplanation | None = None) -> list[Floor]:
    """Return the floors except `same function`, which an experiment decides.

    Empty if no run contains a proof, as with given logs, unless another trainer ran.

    program: the comparison of the recorded training steps. For other trainers than maxview's, only it can prove the
    floor `same program`.
    """
    runs = [run for arm in arms for run in arm.runs]
    if silent := _trainer_without_proofs(*runs):
        left_none = f"{silent} recorded no JAX training step to compare"
        return [
            _floor_of_programs(program) if program else Floor(name="same program", holds=None, evidence=left_none),
            _same_bits(arms),
            _same_checkpoint(arms, f"{silent} did not try to restore the other arm's checkpoint"),
        ]
    if not any(run.program for run in runs):
        return []
    holds, evidence = _compare_programs(arms)
    same_program = Floor(name="same program", holds=holds, evidence=evidence)
    if program and holds is False:
        same_program = _floor_of_programs(program)
    return [same_program, _same_bits(arms), _same_checkpoint(arms)]


def floor_of_function(function: FunctionComparison) -> Floor:
    """Return the floor `same function`, decided by both steps in float64."""
    holds = None if function.answer == "not evaluated" else function.answer == "same"
    return Floor(name="same function", holds=holds, evidence=function.sentence)


def _floor_of_programs(program: ProgramExplanation) -> Floor:
    """Return the floor `same program`, decided by the comparison of the recorded training steps."""
    same, shown = program.answer != "differs", [one[:12] for one in program.hashes]
    hashes = f"{shown[0]}…" if same else f"{shown[0]}… and {shown[1]}…"
    return Floor(
        name="same program",
        holds=same,
        evidence=f"{program.sentence} (hash {hashes})",
        same_text=program.answer == "same text",
    )


def _trainer_without_proofs(*runs: RunRecord) -> str | None:
    """Return the name of the first trainer that reports no proofs; None if there is none."""
    plans = [run.plan for run in runs if run.plan is not None]
    trainers = [trainer_class(plan.trainer) for plan in plans]
    return next((trainer.title for trainer in trainers if not trainer.reports), None)


def _compare_programs(arms: Arms) -> tuple[bool | None, str]:
    """Return whether every run lowered the same train step (None: unknown), and the evidence in words."""
    hashes = [[run.program.get("stablehlo_sha256") for run in arm.runs] for arm in arms]
    if not all(isinstance(value, str) and value for side in hashes for value in side):
        return None, "an arm ended before its train step was lowered"
    known = [list(dict.fromkeys(str(value)[:12] for value in side)) for side in hashes]
    for arm, shown in zip(arms, known, strict=True):
        if len(shown) > 1:
            return False, f"the runs of {arm.label} lower different train steps (sha256 {shown[0]}… and {shown[1]}…)"
    if len({value for side in hashes for value in side}) == 1:
        return True, f"the lowered train step is the same StableHLO on both sides (sha256 {known[0][0]}…)"
    return False, f"the lowered train steps differ (sha256 {known[0][0]}… and {known[1][0]}…)"


def _same_bits(arms: Arms) -> Floor:
    """Return the floor `same bits`: whether every other run of both arms computed the same bits as the first run."""
    first, *others = [(arm.name_run(n), run) for arm in arms for n, run in enumerate(arm.runs)]
    comparisons = [(name, *_compare_bits(first[1], run)) for name, run in others]
    several = len(others) > 1
    for name, holds, evidence in comparisons:
        if holds is False:
            where = f" ({first[0]} and {name})" if several else ""
            return Floor(name="same bits", holds=False, evidence=evidence + where)
    _, holds, evidence = next((item for item in comparisons if item[1] is None), comparisons[0])
    runs = f", in all {len(others) + 1} runs" if several and holds else ""
    return Floor(name="same bits", holds=holds, evidence=evidence + runs)


def _compare_bits(left: RunRecord, right: RunRecord) -> tuple[bool | None, str]:
    silent = _trainer_without_proofs(left, right)
    starts = [run.program.get("initial_state") for run in (left, right)]
    ends = [run.program.get("state") for run in (left, right)]
    digests = [isinstance(start, dict) and (start.get("digest") or start.get("arrays")) for start in starts]
    digests += [isinstance(end, dict) and end.get("arrays") for end in ends]
    if not silent and (left.metrics is None or right.metrics is None or not all(digests)):
        return None, "a run has no metrics, or no digest of its initial or final state"
    if not silent and starts[0] != starts[1]:
        return False, "the arms start from different weights"
    difference, names = _compare_metrics(left, right)
    if difference is not None:
        return (None if difference == OTHER_STEPS else False), difference
    if silent:
        alike = f"{', '.join(names)} of every step are equal bit for bit; but " if names else ""
        return None, f"{alike}{silent} writes no digest of its weights"
    assert left.metrics is not None  # checked above
    if "loss" not in names or not left.metrics.height:
        return None, "the metrics have no loss to compare"
    arrays = [dict(end["arrays"]) for end in ends if end is not None]
    paths = arrays[0].keys() | arrays[1].keys()
    different = sorted(path for path in paths if arrays[0].get(path) != arrays[1].get(path))
    if different:
        return False, f"{len(different)} of {len(paths)} arrays differ after the last step, first {different[0]}"
    return True, (
        f"first weights, {', '.join(names)} of {counted(left.metrics['step'].n_unique(), 'step')}, and all "
        f"{len(paths)} arrays of the state after them are equal bit for bit"
    )


def _compare_metrics(left: RunRecord, right: RunRecord) -> tuple[str | None, list[str]]:
    """Return the first difference of losses and norms in words (None: equal), and the names of the compared metrics.

    `OTHER_STEPS` and no names if the runs have different steps; None and no names if a run has no metrics file.
    """
    if left.metrics is None or right.metrics is None:
        return None, []
    frames = [last_of_each_step(metrics) for metrics in (left.metrics, right.metrics)]
    if frames[0]["step"].to_list() != frames[1]["step"].to_list():
        return OTHER_STEPS, []
    names = [name for name in COMPARED_COLUMNS if all(name in frame.columns for frame in frames)]
    for name in names:
        values = np.stack([frame[name].cast(pl.Float64).to_numpy() for frame in frames])
        for at in np.flatnonzero(varies_at(values, exact=True))[:1]:
            a, b = (frame[name][int(at)] for frame in frames)
            return f"{name} differs at step {frames[0]['step'][int(at)]}: {a!r} and {b!r}", names
    return None, names


def _same_checkpoint(arms: Arms, untried: str = "no arm tried to restore the other's checkpoint") -> Floor:
    runs = [run for arm in arms for run in arm.runs]
    crossings = [report for run in runs if isinstance(report := run.program.get("cross_restore"), dict)]
    crossings += [run.crossing.model_dump() for run in runs if run.crossing is not None]
    known = [crossing for crossing in crossings if crossing.get("holds") is not None]
    if not known:
        evidence = crossings[0]["evidence"] if crossings else untried
        return Floor(name="same checkpoint", holds=None, evidence=str(evidence))
    failed = [crossing for crossing in known if not crossing["holds"]]
    evidence = "; ".join(dict.fromkeys(str(crossing["evidence"]) for crossing in failed or known))
    return Floor(name="same checkpoint", holds=not failed, evidence=evidence)


def has_same_program(floors: list[Floor]) -> bool:
    """Return whether the floor `same program` proves that the programs of both arms have the same text."""
    return any(floor.name == "same program" and floor.holds and floor.same_text for floor in floors)


def run_one_executable(arms: Arms, floors: list[Floor]) -> bool:
    """Return whether all runs have programs of the same text, from compilers of the same version and flags."""
    return has_same_program(floors) and len({_compiler_of(run) for arm in arms for run in arm.runs}) == 1


def _compiler_of(run: RunRecord) -> tuple[str | None, ...]:
    software = run.reading.environment
    variables = run.plan.environment if run.plan is not None else {}
    return software.jax, software.jaxlib, software.libtpu, *(variables.get(name) for name in COMPILER_FLAGS)


def excuse_of(arms: Arms, floors: list[Floor]) -> str:
    """Return why the arms have one program and one host loop, such as ONE_SOURCE; empty if they may have two.

    Equal programs make only the device's work equal. The host's work must be equal too: code, software, environment,
    and every config key except the run's name. The Linen and the NNX trainer have one program and two host loops.
    """
    plans = [run.plan for arm in arms for run in arm.runs if run.plan is not None]
    if not has_same_program(floors) or len(plans) < sum(len(arm.runs) for arm in arms):
        return ""
    if any(_host_inputs(plan) != _host_inputs(plans[0]) for plan in plans):
        return ""
    sources = {plan.versions.get(SOURCE) or (None if plan.dirty else plan.commit) for plan in plans}
    codes = {plan.code for plan in plans}  # digests without comments and local names; "" if unknown
    if None in sources or len(codes) > 1 or (len(sources) > 1 and codes == {""}):
        return ""
    return ONE_SOURCE if len(sources) == 1 else ONE_CODE


def _host_inputs(plan: RunPlan) -> tuple[object, ...]:
    """Return the inputs of the host loop except its code and the run's name."""
    config = {key: value for key, value in plan.config.items() if key != "run_name"}
    versions = {name: version for name, version in plan.versions.items() if name != SOURCE}
    return versions, plan.environment, config, plan.software
