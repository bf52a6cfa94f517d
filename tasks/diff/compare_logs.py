"""Compares logs that the user gives: copies them into the store as run records, then compares the two arms."""

import shutil
from collections.abc import Mapping, Sequence

from configs.comparison import load_comparison, load_target
from configs.frozen import Frozen
from configs.names import list_names
from configs.verdict_rules import load_effects, load_tolerances, make_rules
from tasks.diff.examine.examine_case import CaseRuns, examine
from tasks.diff.examine.noise import MIN_PAIRS, Past
from tasks.diff.examine.same_code import IMPLEMENTATIONS
from tasks.diff.examine.setting_differences import IMPLEMENTATION_KEYS
from tasks.diff.judge.ingest_command import UNNAMED, name_logs, options_of
from tasks.diff.judge.judge_case import judge
from tasks.diff.judge.next_step import make_step
from tasks.diff.phrases.amounts import ONE_RUN
from tasks.ingest.given_logs import LoggedArms, LoggedRun
from tasks.ingest.log_causes import with_cause, with_place
from tasks.metrics.compute_facts import with_facts
from tasks.records.compared_case import ComparisonRecord
from tasks.records.next_step import NextStep
from tasks.records.run import RunRecord
from tasks.resolve.arm_config import find_unfit_cases
from tasks.scrape.read_log import copy_log
from tasks.store.mirror import out_option
from tasks.store.names import check_name, safe_name
from tasks.store.store import Store

INGEST = "ingest"  # the name of every comparison of logs
SUGGESTED = "linen-vs-nnx"  # the comparison that a suggested command runs; it needs this machine only, no checkout
MORE_DEVICES = "cpu-8"  # the target of the suggested command for cases that need several devices


class LogArguments(Frozen):
    """The log arguments of each side, as the user typed them, to build the next command."""

    baseline: tuple[str, ...]
    candidate: tuple[str, ...]


def archive(arms: LoggedArms, store: Store) -> list[RunRecord]:
    """Copy each log into a run folder of the store and write its record there. Return the records, baseline first."""
    sides = zip(arms.names, (arms.baseline, arms.candidate), strict=True)
    return [_archive(run, name, store) for name, runs in sides for run in runs]


def _archive(run: LoggedRun, arm: str, store: Store) -> RunRecord:
    reading = run.reading
    directory = store.run(safe_name(f"{reading.name}-{run.digest}-{reading.span[0]}")).create()
    if not directory.log.exists():
        partial = directory.log.with_suffix(".partial")
        if reading.coverage.unwrapped:
            copy_log(run.file, partial, source=run.pod)  # the lines and offsets of `reading` refer to this copy
        else:
            shutil.copyfile(run.file, partial)
        partial.replace(directory.log)
    reading = with_place(reading, directory.log)
    record = RunRecord(
        plan=None,
        arm=arm,
        label=f"{arm} · {reading.commit}" if reading.commit else arm,
        commit=reading.commit,
        log=directory.log_address,
        reading=with_cause(reading, directory.log, supervised=False) if reading.coverage.complete else reading,
    )
    record = with_facts(record)
    directory.write_record(record)
    return record


def case_runs(
    records: Sequence[RunRecord], *, case: str, target: str | None, aa: bool = False, tolerances: str = "default"
) -> CaseRuns:
    """Return the ingested runs of two arms, baseline first, as a case of the comparison `ingest`.

    target: the machine of the runs; None: unknown.
    """
    labels = {run.arm: run.label for run in reversed(records)}
    arms = tuple(dict.fromkeys(run.arm for run in records))
    question = f"Do {' and '.join(labels[arm] for arm in arms)} differ?"
    known = load_target(target) if target in list_names("targets") else None
    declared = tuple(sorted(IMPLEMENTATION_KEYS))
    rules = make_rules(
        question, load_tolerances(tolerances), load_effects(), known, declared=declared, arms=arms, alike=aa
    )
    return CaseRuns(comparison=INGEST, case=case, target=target or UNNAMED, runs=tuple(records), rules=rules)


def check_words(target: str | None, tolerances: str) -> None:
    """Raise ValueError for an unknown set of tolerances, or for a target that cannot be a file name.

    The target of given logs needs no file in configs/targets.
    """
    if target is not None:
        check_name(target, "target")
    load_tolerances(tolerances)


def compare_pair(
    records: Sequence[RunRecord],
    *,
    case: str,
    aa: bool,
    target: str | None = None,
    past: Mapping[str, Past] | None = None,
    tolerances: str = "default",
    arguments: LogArguments | None = None,
) -> ComparisonRecord:
    """Return the comparison of the ingested runs of two arms, baseline first.

    `target`: the machine of the runs; `past`: differences of equal runs there, as `prior.py` of the history finds them;
    `arguments`: the log arguments, for the suggested command; None: the archived logs.
    """
    baseline = [run for run in records if run.arm == records[0].arm]
    candidate = [run for run in records if run.arm != records[0].arm]
    are_named = arguments is not None and arguments.baseline != arguments.candidate
    arguments = arguments or LogArguments(
        baseline=tuple(r.log for r in baseline), candidate=tuple(r.log for r in candidate)
    )
    runs = case_runs(records, case=case, target=target, aa=aa, tolerances=tolerances)
    runs = runs.replace(instead=instead_of(target, past or {}))
    record = judge(examine(runs, past))
    if arguments.baseline == arguments.candidate:  # one saved page: new logs of one side need a place beside its own
        arguments = LogArguments(
            baseline=tuple(run.log for run in baseline), candidate=tuple(run.log for run in candidate)
        )
    has_room = are_named and not record.has_died  # for logs of further runs
    again = ["maxview", "ingest", *name_logs(arguments.baseline, arguments.candidate, more=has_room)]
    again += options_of(case, target, tolerances, aa=aa)
    place = out_option(records[0].log.rpartition("/runs/")[0])
    return record.replace(next_step=next_of_logs(record, again, place))


def instead_of(target: str | None, past: Mapping[str, Past]) -> str:
    """Return the way to get more evidence about given logs, in words."""
    instead = "give maxview ingest the logs of further runs"
    if target is None:
        instead += " (with --target NAME of the machine they ran on, its noise history counts too)"
    elif not past:
        instead += f" (or add {MIN_PAIRS} pairs of equal runs to the history of {target}: --aa --target {target})"
    return instead


def next_of_logs(record: ComparisonRecord, again: list[str], place: list[str]) -> NextStep | None:
    """Return the step that can settle the verdict; None if it is settled. place: the option for the store.

    For Linen and NNX of a known case, the command trains both on this machine. For other arms it is `again`, the
    present command, to which the user adds the logs of further runs; empty if further runs cannot change the verdict.
    """
    if record.verdict in ("same", "improved"):
        return None
    names = {arm.name.lower() for arm in (record.baseline, record.candidate)}
    if names != IMPLEMENTATIONS or record.case not in list_names("cases"):
        by_one_run = any(row.verdict == record.verdict and row.evidence == ONE_RUN for row in record.rows)
        is_blocked = any(finding.effect == "blocks" for finding in record.findings)
        if is_blocked and not record.has_died:  # only other logs help
            return make_step(record, "by hand")
        if record.has_died or record.verdict == "unknown" or by_one_run:
            return make_step(record, "logs", [*again, *place])
        return make_step(record, "by hand")
    compare = ["maxview", "compare", SUGGESTED, "--case", record.case]
    if record.case in find_unfit_cases([record.case], load_target(load_comparison(SUGGESTED).target)):
        compare += ["--target", MORE_DEVICES]
    compare += ["--until-decided"] if record.verdict == "unknown" and not record.has_died else []
    return make_step(record, "stand-in", [*compare, *place])
