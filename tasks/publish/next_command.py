"""Says which command of maxview is most useful after a comparison of runs that it made."""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

from configs.comparison import load_target
from configs.load import COMMAND_LINE
from tasks.records import ComparisonRecord, RunPlan, RunRecord
from tasks.store.mirror import name_store

DEFAULT_OUT = "maxview-out"  # of the command line


def add_next(record: ComparisonRecord, runs: Sequence[RunRecord]) -> ComparisonRecord:
    """The comparison of these runs with the command that comes next."""
    sides = [[run.plan for run in runs if run.arm == arm.name] for arm in (record.baseline, record.candidate)]
    command = suggest_next(record, [side[0] for side in sides], repeats=len(sides[0]))
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


def suggest_next(record: ComparisonRecord, plans: Sequence[RunPlan | None], *, repeats: int) -> str:
    """The command that is most useful after this verdict, with the wishes of `plans`, one run of each arm."""
    if any(finding.effect == "blocks" for finding in record.findings):
        shown = record.baseline if record.baseline.cause_of_death else record.candidate
        return shlex.join(["maxview", "scrape", shown.logs[0]])
    words = ["maxview", "compare", record.comparison]
    wishes = ["--target", record.target, *(wishes_of(plans[0]) if plans[0] else []), *arm_wishes(plans)]
    if record.verdict == "unknown":
        wanted = max((row.runs_wanted or 0 for row in record.rows), default=0)
        more = ["--repeats", str(wanted)] if wanted > repeats else ["--until-decided"]
        return shlex.join([*words, "--case", record.case, *wishes, *more])
    return shlex.join([*words, "--case", "all", *wishes])


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
