"""Finds the most useful step after a comparison of trained or compiled runs, and a command that repeats it.

An arm is one of the two compared versions.
"""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

from configs.comparison import load_comparison, load_target
from configs.load import COMMAND_LINE
from configs.names import list_names, typed_names
from configs.trainers import find_kind
from tasks.diff.examine.cover_change import is_uncovered, suggest_case
from tasks.diff.judge.decide import MIN_REPEATS
from tasks.diff.judge.ingest_command import name_logs, options_of
from tasks.diff.judge.next_step import make_step
from tasks.diff.judge.program_time_rows import longer_limit
from tasks.diff.phrases.amounts import ONE_RUN
from tasks.metrics.time_metrics import CPU_TIME, PROGRAM_TIME, STEP_TIME
from tasks.records.compared_case import ComparisonRecord
from tasks.records.next_step import NextStep
from tasks.records.plan import RunPlan
from tasks.records.run import RunRecord
from tasks.resolve.arm_config import find_unfit_cases
from tasks.resolve.refs import WORKING_TREE
from tasks.store.mirror import name_store, out_option

TIMES = frozenset({PROGRAM_TIME.name, STEP_TIME.name, CPU_TIME.name})
CONTRADICTIONS = ("same-log", "log-disagrees", "repeated-steps")  # findings about unusable files: only new runs help


def add_next(record: ComparisonRecord, runs: Sequence[RunRecord], *, cases: int) -> ComparisonRecord:
    """Return the comparison of these runs with its next step; `cases`: the number of cases compared together."""
    step = suggest_next(record, _plans_of_arms(record, runs), cases=cases)
    return record.replace(next_step=step)


def add_next_of_compiles(record: ComparisonRecord, compiles: Sequence[RunRecord]) -> ComparisonRecord:
    """Return the comparison of two compiled steps with its next step: train both, or read an unfit arm's log."""
    unfit = record.programs.unfit if record.programs else ()
    failed = [run.log for run in compiles if run.arm in unfit]
    plans = _plans_of_arms(record, compiles)
    train = ["maxview", "compare", record.comparison, "--case", record.case, "--target", plans[0].target]
    if failed:
        step = make_step(record, "read the log", ["less", failed[0]])
    else:
        step = make_step(record, "train", [*train, *options_of_plan(plans[0]), *options_of_arms(plans)])
    return record.replace(next_step=step)


def add_next_of_experiments(record: ComparisonRecord, plans: Sequence[RunPlan]) -> ComparisonRecord:
    """Return the comparison of two programs with its next step: longer turns if they did not decide, else train.

    After a death it is the same command again.
    """
    train = ["maxview", "compare", record.comparison, "--case", record.case, "--target", plans[0].target]
    options = [*options_of_plan(plans[0]), *options_of_arms(plans)]
    if record.has_died:
        step = make_step(record, "record again", [*train, "--only", ",".join(record.asked), *options])
        return record.replace(next_step=step)
    if record.verdict in ("regressed", "changed") and (shown := show_edit(record, plans[1])):
        return record.replace(next_step=shown)
    longer = _longer_turns(record)
    if is_uncovered(record) and (case := suggest_case(record.coverage)):
        train = ["maxview", "compare", record.comparison, "--case", case, "--target", plans[0].target]
    words = [*train, *(["--only", "time", *longer] if longer else []), *options]
    return record.replace(next_step=make_step(record, "interleave" if longer else "train", words))


def _plans_of_arms(record: ComparisonRecord, runs: Sequence[RunRecord]) -> list[RunPlan]:
    """Return the plan of one baseline run and of one candidate run."""
    plans = {run.arm: run.plan for run in runs if run.plan is not None}
    return [plans[arm.name] for arm in (record.baseline, record.candidate)]


def suggest_next(record: ComparisonRecord, plans: Sequence[RunPlan], *, cases: int) -> NextStep | None:
    """Return the most useful step after this verdict; its command is empty if no command gives more information.

    plans: one per arm; the command repeats their options. cases: the number of cases compared together. If
    the target has run all cases that fit, suggest the cases for more devices, then a compile for a TPU slice.
    """
    place, same = load_target(record.target), [*options_of_plan(plans[0]), *options_of_arms(plans)]
    compare, options = ["maxview", "compare", record.comparison], ["--target", record.target, *same]
    if record.has_died:  # this trains only the arm that died, from its last checkpoint
        return make_step(record, "resume", [*compare, "--case", record.case, *options])
    blocking = [finding.kind for finding in record.findings if finding.effect == "blocks"]
    if blocking and blocking[0] in CONTRADICTIONS:
        return make_step(record, "again", [*compare, "--case", record.case, *options, "--fresh"])
    if blocking:
        if any(plan.backend != "local" for plan in plans):
            return make_step(record, "by hand")
        store = Path(plans[0].directory).parent.parent
        folder = store / "comparisons" / record.comparison / record.case / record.id
        return make_step(record, "explain", ["maxview", "explain", str(folder)])
    if bisect := offer_bisection(record, plans):
        return make_step(record, "bisect", bisect)
    timed = [row.evidence for row in record.rows if row.level and row.verdict == record.verdict]
    if record.verdict in ("regressed", "improved") and ONE_RUN in timed:
        words = [*compare, "--case", record.case, *options, "--repeats", str(MIN_REPEATS)]
        return make_step(record, "repeat", words, runs=MIN_REPEATS)
    if record.verdict in ("regressed", "changed") and (shown := show_edit(record, plans[1])):
        return shown
    if record.verdict == "unknown":
        if is_uncovered(record):
            case = suggest_case(record.coverage)
            return make_step(
                record, "other cases" if case else "by hand", [*compare, "--case", case, *options] if case else []
            )
        if more := _longer_turns(record):
            return make_step(record, "interleave", [*compare, "--case", record.case, *options, *more])
        # not --repeats: the number would be a guess, because new runs change the estimate of the noise
        return make_step(record, "until decided", [*compare, "--case", record.case, *options, "--until-decided"])
    if any(find_kind(plan.trainer).takes_command for plan in plans):  # it supports its comparison's cases only
        has_more = cases < len(load_comparison(record.comparison).cases)
        return make_step(record, "other cases", [*compare, *options]) if has_more else make_step(record, "by hand")
    every = list_names("cases")
    unfit = list(find_unfit_cases(every, place)) if cases > 1 else []  # not for one case: this reads every case
    if cases < len(every) - len(unfit):
        return make_step(record, "every case", [*compare, "--case", "all", *options])
    for target in map(load_target, list_names("targets")):
        fit = [case for case in unfit if case not in find_unfit_cases(unfit, target)]
        if fit and target.trains_here and target.platform == "cpu":  # JAX emulates any number of devices on a CPU
            words = [*compare, *(word for case in fit for word in ("--case", case)), "--target", target.name, *same]
            return make_step(record, "other cases", words)
    # libtpu compiles for TPUs
    if place.topology is None and all("libtpu" in plan.versions and not plan.aa for plan in plans):
        return make_step(record, "preflight", ["maxview", "preflight", record.comparison, "--case", record.case, *same])
    return make_step(record, "by hand")


def show_edit(record: ComparisonRecord, plan: RunPlan) -> NextStep | None:
    """Return the step to look at the candidate's uncommitted changes; None if it has none."""
    if plan.version is None or not plan.version.changed:
        return None
    place = ["-C", plan.repository] if plan.repository and Path(plan.repository) != Path.cwd() else []
    return make_step(record, "look", ["git", *place, "diff", "HEAD"])


def _longer_turns(record: ComparisonRecord) -> list[str]:
    """Return the option for longer turns of the programs if their time is undecided and no other result is; else []."""
    unknown = {row.metric for row in record.rows if row.verdict == "unknown"}
    if record.turns is None or record.turns.problem or PROGRAM_TIME.name not in unknown or unknown - TIMES:
        return []
    return ["--interleave", longer_limit(record.turns)]


def offer_bisection(record: ComparisonRecord, plans: Sequence[RunPlan]) -> list[str]:
    """Return the `maxview bisect` command between the commits of both arms, or an empty list.

    Not empty if the verdict is regressed or changed, both commits are known, the candidate's is several commits after
    the baseline's, and no arm has packages of its own.
    """
    before, after = plans
    between = record.commits.get(record.candidate.name, ())
    diverged = bool(record.commits.get(record.baseline.name))
    if record.verdict not in ("regressed", "changed") or len(between) < 2 or diverged:
        return []
    if any(plan.version is not None and plan.version.changed for plan in plans):
        return []  # a bisection sees commits only
    if before.software or after.software or not before.commit or not after.commit:
        return []
    words = ["maxview", "bisect", record.comparison, "--good", before.commit[:9], "--bad", after.commit[:9]]
    words += ["--case", record.case, "--target", record.target]
    words += ["--repository", after.repository] if after.repository else []
    worse = {row.metric for row in record.rows if row.verdict in ("regressed", "changed") and not row.allowed}
    words += ["--metric", "time"] if worse == {PROGRAM_TIME.name} else []  # trains nothing
    return [*words, *options_of_plan(after)]


def repeat_command(record: ComparisonRecord, baseline: RunRecord | None, candidate: RunRecord | None) -> str:
    """Return `maxview compare` or `preflight … --fresh` at the compared commits, or `maxview ingest` with the logs.

    Empty if a run is None, or if both this and the next command would be `maxview ingest`.
    """
    if baseline is None or candidate is None:
        return ""
    plans = [run.plan for run in (baseline, candidate) if run.plan is not None]
    if len(plans) < 2:
        if record.next_step is not None and record.next_step.kind == "logs":
            return ""
        logs = name_logs(record.baseline.logs, record.candidate.logs)
        place = out_option(record.baseline.logs[0].rpartition("/runs/")[0])
        return shlex.join(["maxview", "ingest", *logs, *options_of(record.case, record.target, aa=record.aa), *place])
    words = ["maxview", plans[0].work.command, record.comparison, "--case", record.case, "--target", plans[0].target]
    if len(record.baseline.runs) > 1:
        words += ["--repeats", str(len(record.baseline.runs))]
    pinned = [plan.replace(ref=plan.ref and (plan.commit or plan.ref)) for plan in plans]
    return shlex.join([*words, *options_of_plan(plans[0]), *options_of_arms(pinned), "--fresh"])


def options_of_arms(plans: Sequence[RunPlan]) -> list[str]:
    """Return the options of both arms beyond the comparison's file: baseline, refs, repository, packages, `--aa`."""
    words = []
    named = plans[0].comparison in list_names("comparisons") or plans[0].comparison in typed_names()
    spec = load_comparison(plans[0].comparison) if named else None
    pythons = {arm.name: f"python {arm.python}" for arm in spec.arms} if spec else {}
    if plans[0].blessed:
        words += ["--baseline", plans[0].blessed]
    if all(plan.ref for plan in plans):  # otherwise the comparison's file names the refs
        for option, plan in zip(("--baseline", "--branch"), plans, strict=True):
            edited = plan.version is not None and plan.version.changed  # git knows neither its name nor its commit
            words += [option, WORKING_TREE if edited else str(plan.ref)]
        places = {plan.repository for plan in plans}
        others = [place for place in places if place and not (spec and place == spec.repository)]
        words += ["--repository", *others] if len(places) == len(others) == 1 else []
    for plan in plans:
        for word in plan.software:
            # only a comparison's file can name an image and a command
            if not word.startswith(("image ", "command ")) and word != pythons.get(plan.arm):
                words += ["--with", f"{plan.arm}:{word.removeprefix('python ')}"]
    return words + (["--aa"] if any(plan.aa for plan in plans) else [])


def options_of_plan(plan: RunPlan) -> list[str]:
    """Return the options of a plan that differ from the defaults: model, `--set`, and the output folder."""
    words: list[str] = []
    models = {Path(origin.rpartition(":")[0]) for origin in plan.origins.values()}
    named = sorted(path.stem for path in models if path.parent.name == "models")
    if named and named != [load_target(plan.target).model]:
        words += ["--model", named[0]]
    for key, origin in plan.origins.items():
        if origin == COMMAND_LINE:
            words += ["--set", f"{key}={json.dumps(plan.config[key]).strip(chr(34))}"]
    return words + out_option(name_store(Path(plan.directory).parent.parent))
