"""Turns the plans of a comparison's runs into the command that repeats exactly this comparison."""

import shlex
from collections.abc import Sequence

from tasks.publish.content.next_command import options_of_arms, options_of_plan
from tasks.records import ComparisonRecord, RunRecord


def repeat_command(record: ComparisonRecord, baseline: RunRecord | None, candidate: RunRecord | None) -> str:
    """Return `maxview compare … --fresh` at the compared commits, or `maxview ingest` with the logs; else empty."""
    if baseline is None or candidate is None:
        return ""
    plans = [run.plan for run in (baseline, candidate) if run.plan is not None]
    if len(plans) < 2:
        sides = [list(arm.logs) for arm in (record.baseline, record.candidate)]
        words = [*sides[0], *sides[1]] if len(sides[0]) == len(sides[1]) == 1 else _several(sides)
        words += ["--case", record.case, *(["--target", record.target] if " " not in record.target else [])]
        return shlex.join(["maxview", "ingest", *words, *(["--aa"] if record.aa else [])])
    verb = "preflight" if plans[0].compiles_for else "compare"
    words = ["maxview", verb, record.comparison, "--case", record.case, "--target", plans[0].target]
    if len(record.baseline.runs) > 1:
        words += ["--repeats", str(len(record.baseline.runs))]
    pinned = [plan.model_copy(update={"ref": plan.ref and (plan.commit or plan.ref)}) for plan in plans]
    return shlex.join([*words, *options_of_plan(plans[0]), *options_of_arms(pinned), "--fresh"])


def _several(sides: Sequence[Sequence[str]]) -> list[str]:
    return ["--baseline", *sides[0], "--candidate", *sides[1]]
