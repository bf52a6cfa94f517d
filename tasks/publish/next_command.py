"""Says which command of maxview is most useful after a comparison of runs that it made."""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

from configs.comparison import Target, list_names, load_target
from configs.load import COMMAND_LINE
from tasks.records import ComparisonRecord, RunPlan, RunRecord
from tasks.resolve.plans import find_unfit
from tasks.store.mirror import name_store

DEFAULT_OUT = "maxview-out"  # of the command line


def add_next(record: ComparisonRecord, runs: Sequence[RunRecord], *, cases: int) -> ComparisonRecord:
    """The comparison of these runs with the command that comes next. `cases`: so many are compared with it."""
    sides = [[run.plan for run in runs if run.arm == arm.name] for arm in (record.baseline, record.candidate)]
    command = suggest_next(record, [side[0] for side in sides], repeats=len(sides[0]), cases=cases)
    return record.model_copy(update={"next_command": command})


def add_next_of_compiles(record: ComparisonRecord, compiles: Sequence[RunRecord]) -> ComparisonRecord:
    """The comparison of two compiled steps with the command that comes next: to train them, or to read what failed."""
    by_arm = {run.arm: run for run in compiles}
    runs = [by_arm[arm.name] for arm in (record.baseline, record.candidate)]
    plans = [run.plan for run in runs if run.plan is not None]
    unfit = [run for run in runs if record.programs and run.arm in record.programs.unfit]
    if unfit:
        words = ["less", unfit[0].log]
    else:
        words = ["maxview", "compare", record.comparison, "--case", record.case, "--target", plans[0].target]
        words += [*wishes_of(plans[0]), *arm_wishes(plans)]
    return record.model_copy(update={"next_command": shlex.join(words)})


def suggest_next(record: ComparisonRecord, plans: Sequence[RunPlan | None], *, repeats: int, cases: int = 1) -> str:
    """The command that is most useful after this verdict, with the wishes of `plans`, one run of each arm.

    cases: so many are compared together; once that is every case that the target can run, those are next that need
    other devices, and then a TPU slice. Empty where nothing would tell more.
    """
    if any(finding.effect == "blocks" for finding in record.findings):
        shown = record.baseline if record.baseline.cause_of_death else record.candidate
        return shlex.join(["maxview", "scrape", shown.logs[0]])
    words = ["maxview", "compare", record.comparison]
    same = [*(wishes_of(plans[0]) if plans[0] else []), *arm_wishes(plans)]
    wishes = ["--target", record.target, *same]
    if record.verdict == "unknown":
        wanted = max((row.runs_wanted or 0 for row in record.rows), default=0)
        more = ["--repeats", str(wanted)] if wanted > repeats else ["--until-decided"]
        return shlex.join([*words, "--case", record.case, *wishes, *more])
    every = [*words, "--case", "all", *wishes]
    if cases == 1:  # every case would be read to be counted
        return shlex.join(every)
    place, names = load_target(record.target), list_names("cases")
    unfit = find_unfit(names, place)
    if cases < len(names) - len(unfit):
        return shlex.join(every)
    if unfit and (other := _find_room(list(unfit), place)):
        target, fit = other
        return shlex.join([*words, *(word for case in fit for word in ("--case", case)), "--target", target, *same])
    ours = all(plan is not None and plan.trainer != "command" and not plan.aa for plan in plans)
    if ours and place.topology is None and not place.plays_logs:
        return shlex.join(["maxview", "preflight", record.comparison, "--case", record.case, *same])
    return ""


def _find_room(cases: Sequence[str], place: Target) -> tuple[str, list[str]] | None:
    """Another target of this machine, of the same kind of device or its CPU, and those of the cases that fit there."""
    for platform in dict.fromkeys((place.platform, "cpu")):
        for target in map(load_target, list_names("targets")):
            unfit = find_unfit(cases, target)
            if target.trains_here and target.platform == platform and len(unfit) < len(cases):
                return target.name, [case for case in cases if case not in unfit]
    return None


def arm_wishes(plans: Sequence[RunPlan | None]) -> list[str]:
    """The options behind the trainers of the two arms: refs, where they were looked up, and what runs them."""
    known = [plan for plan in plans if plan is not None]
    words = []
    if known and all(plan.ref for plan in known):  # else the comparison's file has them
        for option, plan in zip(("--baseline", "--branch"), known, strict=False):
            words += [option, str(plan.ref)]
        places = {plan.repository for plan in known}
        named = [place for place in places if place]
        words += ["--repository", *named] if len(places) == len(named) == 1 else []
    for plan in known:
        for word in plan.software:
            if not word.startswith("image "):  # which only a comparison's file can name
                words += ["--with", f"{plan.arm}:{word.removeprefix('python ')}"]
    return words + (["--aa"] if any(plan.aa for plan in known) else [])


def wishes_of(plan: RunPlan) -> list[str]:
    """The options behind a plan: model and folder where they are not what they are without being named, and --set."""
    words: list[str] = []
    models = {Path(origin.rpartition(":")[0]) for origin in plan.origins.values()}
    named = sorted(path.stem for path in models if path.parent.name == "models")
    if named and named != [load_target(plan.target).model]:
        words += ["--model", named[0]]
    for key, origin in plan.origins.items():
        if origin == COMMAND_LINE:
            words += ["--set", f"{key}={json.dumps(plan.config[key]).strip(chr(34))}"]
    out = Path(plan.directory).parent.parent
    return words + ([] if out == Path.cwd() / DEFAULT_OUT else ["--out", name_store(out)])
