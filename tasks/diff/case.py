"""Gathers the runs of one case into its two arms and compares them by the rules that came with their plans."""

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from configs.comparison import load_comparison, load_target
from configs.load import COMMAND_LINE
from configs.schema import Frozen
from configs.verdict_rules import VerdictRules, load_verdict_rules
from tasks.diff.comparison import diff
from tasks.diff.decide_noisy import chance_of
from tasks.diff.noise import Past
from tasks.diff.time_rows import Circumstances
from tasks.records import ComparisonRecord, RunPlan, RunRecord
from tasks.store.mirror import name_store

DEFAULT_OUT = "maxview-out"  # of the command line


class CaseRuns(Frozen):
    """Every run of one case of a comparison, in the order they ran."""

    comparison: str
    case: str
    target: str
    runs: tuple[RunRecord, ...]
    cases: int = 1  # of the comparison, which share its chance of a false alarm
    look: int | None = None  # the n-th, of a comparison that goes on until it is decided
    rules: VerdictRules | None = None  # of the request; None: as the comparison's files say now


def compare_case(case: CaseRuns, *, past: Mapping[str, Past] | None = None) -> ComparisonRecord:
    """The comparison of a case's two arms.

    `past`: what equal runs on the target differed by, of each noisy metric that the history knows.
    """
    names = [arm.name for arm in load_comparison(case.comparison).arms]
    baseline, candidate = ([run for run in case.runs if run.arm == name] for name in names)
    rules = case.rules or load_verdict_rules(case.comparison, case.target)
    record = diff(
        baseline,
        candidate,
        comparison=case.comparison,
        case=case.case,
        target=case.target,
        rules=rules,
        aa=is_control(rules, case.runs),
        given=Circumstances(past=past or {}, chance=chance_of(cases=case.cases, look=case.look)),
    )
    return record.model_copy(
        update={"next_command": suggest_next(record, [baseline[0].plan, candidate[0].plan], repeats=len(baseline))}
    )


def is_control(rules: VerdictRules, runs: Sequence[RunRecord]) -> bool:
    """Whether the two arms are meant to be the same, to measure the noise: declared so, or because they set nothing."""
    declared = any(run.plan is not None and run.plan.aa for run in runs)
    return declared or (rules.alike and not any(run.plan and run.plan.software for run in runs))


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
