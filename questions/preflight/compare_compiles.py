"""Compares the compiles of two arms for a TPU slice: returns the `ComparisonRecord` that page and terminal display.

An arm is one side of a comparison; its compile is a run without training. A slice is a group of TPU chips, given by its
topology such as v6e-32. A floor is a level of the equality proof; compiles have only "same program".
"""

import gzip
import io
from collections.abc import Iterator, Sequence

from configs.frozen import Frozen
from configs.topologies import find_topology
from configs.verdict_rules import VerdictRules, load_verdict_rules
from tasks.diff.examine.arms import ArmRuns, Arms, summarise
from tasks.diff.examine.comparability import KINDS_WITHOUT_RUNS, find_findings
from tasks.diff.examine.examination import Decided, Examination, Shown, Subject
from tasks.diff.examine.page_id import comparison_id
from tasks.diff.judge.decide import decide_exact, show_percentage
from tasks.diff.judge.judge_case import judge
from tasks.diff.judge.metric_rows import Cells, is_unfilled, make_row, missing_decision, not_judged
from tasks.metrics.metric import Metric
from tasks.metrics.program_metrics import COMPILE_TIME, COMPILES, GIB, KERNELS, PROGRAM_METRICS
from tasks.programs.compare_compiled import ProgramSide, compare_programs, same_text
from tasks.programs.program_work import FIRST_LINE, Analysis, analyse_program
from tasks.records.compared_case import ComparisonRecord, Decision, Evidence, Finding, Floor, MetricDiff
from tasks.records.compiled import FILE, LOWERED, OPTIMISED, CompiledProgram, CompileError
from tasks.records.log_reading import Environment
from tasks.records.run import RunRecord
from tasks.records.run_facts import Measured
from tasks.records.shared_fields import Source
from tasks.store.documents import model_from_json, read_document
from tasks.store.store import Store


class Compiled(Frozen):
    """One arm's compile: its run and its result."""

    run: RunRecord
    program: CompiledProgram
    text: bytes | None  # the text of the optimised program, gzipped; None without one
    reported: bool = True  # False if the compile ended without a report


def compare_case_compiled(records: Sequence[RunRecord], store: Store) -> ComparisonRecord:
    """Return the comparison of a case's two compiles. Raises StoreError for damaged files."""
    plan = records[0].plan
    assert plan is not None  # every compile has a plan
    rules = plan.rules or load_verdict_rules(plan.comparison, plan.target)
    by_arm = {record.arm: record for record in records}
    baseline, candidate = (read_compile(by_arm[name], store) for name in rules.arms)
    return judge(examine_compiles(baseline, candidate, comparison=plan.comparison, case=plan.case, rules=rules))


def read_compile(record: RunRecord, store: Store) -> Compiled:
    """Return a compile's result. A compile without a report counts as failed; its error is read from its log, if any.

    Raises StoreError if a file is damaged.
    """
    assert record.plan is not None  # every compile has a plan
    assert record.plan.compiles_for is not None
    directory = store.run_of_log(record.log)
    program = read_document(directory.bring(FILE), model_from_json(CompiledProgram))
    text = directory.bring(OPTIMISED)
    if program is not None:
        return Compiled(run=record, program=program, text=text.read_bytes() if text.is_file() else None)
    topology, error = find_topology(record.plan.compiles_for), record.reading.error
    stated = CompileError(type=error.type, message=error.message) if error else None
    facts = topology.model_dump(include={"devices", "hbm_bytes"})
    program = CompiledProgram(topology=topology.name, ok=False, error=stated, **facts)
    return Compiled(run=record, program=program, text=None, reported=False)


def examine_compiles(
    baseline: Compiled, candidate: Compiled, *, comparison: str, case: str, rules: VerdictRules
) -> Examination:
    """Return what two compiled training steps show; no experiment can add to it.

    An arm that does not compile is a finding of the kind "died". `programs.unfit` lists the arms whose compile reported
    that they do not compile, or that they do not fit into the device's memory.
    """
    compiles = (baseline, candidate)
    left, right = (ArmRuns(name=one.run.arm, label=one.run.label, runs=(one.run,)) for one in compiles)
    arms = (left, right)
    sides = [ProgramSide(one.program, _analyse(one.text) if one.text else None) for one in compiles]
    unfit = [one.run.arm for one in compiles if one.reported and (not one.program.ok or _overflows(one.program))]
    found = find_findings(arms, declared=frozenset(rules.declared), effects=rules.effects, aa=False, parities=())
    findings = [*_deaths(compiles, arms, rules), *(finding for finding in found if finding.kind in KINDS_WITHOUT_RUNS)]
    every = list(_rows(sides, arms, rules))
    summaries = [
        summarise(arm).replace(programs=_texts(one), environment=_describe_software(one.program))
        for arm, one in zip(arms, compiles, strict=True)
    ]
    return Examination(
        subject=Subject(
            id=comparison_id(comparison, case, [baseline.run, candidate.run]), comparison=comparison, case=case,
            target=candidate.program.topology, rules=rules,
            aa=any(one.run.plan is not None and one.run.plan.aa for one in compiles),
        ),
        arms=arms,
        findings=tuple(findings),
        floors=tuple(_floors(sides, arms)),
        shown=Shown(
            baseline=summaries[0],
            candidate=summaries[1],
            programs=compare_programs(*sides).replace(unfit=tuple(unfit)),
        ),
        decided=Decided(
            rows=tuple(row for row in every if not is_unfilled(row)),
            # titles with a dash name parts of a sum, which are not listed
            absent=tuple(row.title for row in every if is_unfilled(row) and not row.title.startswith("–")),
        ),
    )  # fmt: skip


def _describe_software(program: CompiledProgram) -> Environment:
    """Return the compile's versions and the slice's number of devices; the log has the compiling machine's devices."""
    versions = {name: program.software.get(name) for name in ("jax", "jaxlib", "libtpu")}
    return Environment(num_devices=program.devices, **versions)


def _analyse(packed: bytes) -> Analysis:
    with gzip.open(io.BytesIO(packed), "rt", encoding="utf-8", newline="\n") as lines:
        return analyse_program(lines)


def _texts(one: Compiled) -> tuple[str, ...]:
    """Return the file names of the program's texts in the order of `Source.run`: 0 is the log, 1 the first text."""
    lowered = one.program.fingerprints is not None
    return (*((OPTIMISED,) if one.text else ()), *((LOWERED,) if lowered else ()))


def _deaths(compiles: tuple[Compiled, Compiled], arms: Arms, rules: VerdictRules) -> Iterator[Finding]:
    for one, arm in zip(compiles, arms, strict=True):
        if one.program.ok:
            continue
        error, stated = arm.reading.error, one.program.error
        why = f"{stated.type}: {stated.message.strip().partition(chr(10))[0]}" if stated else "it does not say why"
        source = Source(line=error.line, offset=error.offset) if error else None
        claim = f"{arm.label} does not compile for {one.program.topology}"
        yield Finding(
            kind="died",
            effect="blocks" if (effect := rules.effects["died"]) == "ignore" else effect,
            message=f"{claim}: {why}",
            claim=claim,
            evidence=(Evidence(arm=arm.name, value=why, source=source),),
        )


def _floors(sides: list[ProgramSide], arms: Arms) -> Iterator[Floor]:
    """Yield the floor "same program": it holds if the optimised programs are the same, and else fails.

    Yields nothing if an arm did not compile, or if a fingerprint is missing.
    """
    if same_text(*sides):
        made = "the compiler makes the same program of both"
        evidence = _say_compiled(sides, arms) if _one_input(sides) else made
        yield Floor(name="same program", holds=True, evidence=evidence)
        return
    left, right = (side.program.fingerprints for side in sides)
    if left and right and left.optimised and right.optimised:
        kind = "the same" if left.lowered == right.lowered else "different"
        yield Floor(name="same program", holds=False, evidence=f"{kind} StableHLO was compiled to different programs")


def _one_input(sides: list[ProgramSide]) -> bool:
    """Return whether both arms gave the compiler the same program, so that one compile is enough."""
    keys = [side.program.compiler_key for side in sides]
    return keys[0] is not None and keys[0] == keys[1]


def _say_compiled(sides: list[ProgramSide], arms: Arms) -> str:
    """Return a sentence about which arms were compiled, and which took the result of an earlier compile."""
    pairs = [(arm, side.program.taken_from) for arm, side in zip(arms, sides, strict=True)]
    if not _one_input(sides):
        taken = [f"{arm.label} was not compiled: {before} was the same program" for arm, before in pairs if before]
        return "; ".join(taken) or "one compile of each"
    anew = [arm.label for arm, before in pairs if before is None]
    when = ("compiled before, for {}", "compiled once, for {}", "compiled twice")[len(anew)]
    return f"{when.format(anew[0] if anew else pairs[0][1])}: both arms handed the compiler the same program"


def _rows(sides: list[ProgramSide], arms: Arms, rules: VerdictRules) -> Iterator[MetricDiff]:
    for metric in PROGRAM_METRICS:
        if metric.of_program is None:
            yield _compiles_row(sides, arms)
            continue
        left, right = (_cell(side, metric) for side in sides)
        pair = (left, right)
        decision = missing_decision(pair, arms)
        if decision is not None:
            decision = decision if metric.judged == "exact" else not_judged(decision.reason)
        elif metric is KERNELS:
            decision = _judge_kernels(pair)
        elif metric.judged == "exact":
            decision = _judge(metric, pair, rules)
        else:
            decision = not_judged(metric.why or _say_compiled(sides, arms))
        yield make_row(metric, pair, arms, decision)


def _cell(side: ProgramSide, metric: Metric) -> Measured:
    """Return a metric's value for the program, if any. Its source is the optimised text; a compile time has none."""
    work = side.analysis.work if side.analysis else None
    value = metric.of_program(side.program, work) if metric.of_program else None
    if value is None:
        return Measured()
    source = None if metric is COMPILE_TIME else FIRST_LINE
    return Measured(value=value, text=f"{value:,.{metric.decimals}f}", source=source)


def _compiles_row(sides: list[ProgramSide], arms: Arms) -> MetricDiff:
    """Return the row that judges whether each arm compiles and fits into the device's memory."""
    fits = [side.program.ok and not _overflows(side.program) for side in sides]
    cells = [_fit_cell(side.program, fit) for side, fit in zip(sides, fits, strict=True)]
    if fits[0] == fits[1]:
        reason = "both do" if fits[0] else "neither does"
        decision = Decision(verdict="same" if fits[0] else "unknown", reason=reason)
    else:
        decision = Decision(verdict="regressed" if fits[0] else "improved", reason="only one of them does")
    return make_row(COMPILES, (cells[0], cells[1]), arms, decision)


def _overflows(program: CompiledProgram) -> bool:
    return program.memory is not None and program.memory.total > program.hbm_bytes


def _fit_cell(program: CompiledProgram, fits: bool) -> Measured:
    if program.error is not None or program.memory is None:
        return Measured(text=f"no: {program.error.type}" if program.error else "no")
    share = 100 * program.memory.total / program.hbm_bytes
    return Measured(text=f"{'yes' if fits else 'no'}: {share:.1f} % of {program.hbm_bytes / GIB:.2f} GiB")


def _judge(metric: Metric, cells: Cells, rules: VerdictRules) -> Decision:
    left, right = (cell.value for cell in cells)
    assert left is not None  # `missing_decision` handled missing values
    assert right is not None
    tolerance = rules.tolerances[metric.tolerance]
    decision = decide_exact(left, right, better=metric.better, tolerance=tolerance, precision=metric.precision)
    if left and left != right:
        share = show_percentage(left, right)
        return decision.replace(effect_text=share, effect_short=share)
    return decision


def _judge_kernels(cells: Cells) -> Decision:
    """Judge the number of runs of custom kernels. It must be equal, as the compiler does not estimate their cost."""
    same = cells[0].value == cells[1].value
    why = (
        "as many on both sides"
        if same
        else "the cycles do not include the cost of kernels, so their number must be equal"
    )
    return Decision(verdict="same" if same else "changed", reason=why, threshold_text="exact")
