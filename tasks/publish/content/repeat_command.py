"""Writes the command that repeats a comparison with the same commits and options, from the plans of its runs."""

import shlex

from tasks.diff.compare_logs import options_of
from tasks.publish.content.next_command import options_of_arms, options_of_plan
from tasks.records import ComparisonRecord, RunRecord
from tasks.store.mirror import out_option


def repeat_command(record: ComparisonRecord, baseline: RunRecord | None, candidate: RunRecord | None) -> str:
    """Return `maxview compare … --fresh` at the compared commits, or `maxview ingest` with the logs.

    Empty if a run is None, or if the next command already is `maxview ingest`.
    """
    if baseline is None or candidate is None:
        return ""
    plans = [run.plan for run in (baseline, candidate) if run.plan is not None]
    if len(plans) < 2:
        if record.next_command.startswith("maxview ingest "):
            return ""
        logs = ["--baseline", *record.baseline.logs, "--candidate", *record.candidate.logs]
        place = out_option(record.baseline.logs[0].rpartition("/runs/")[0])
        return shlex.join(["maxview", "ingest", *logs, *options_of(record.case, record.target, aa=record.aa), *place])
    verb = "preflight" if plans[0].compiles_for else "compare"
    words = ["maxview", verb, record.comparison, "--case", record.case, "--target", plans[0].target]
    if len(record.baseline.runs) > 1:
        words += ["--repeats", str(len(record.baseline.runs))]
    pinned = [plan.model_copy(update={"ref": plan.ref and (plan.commit or plan.ref)}) for plan in plans]
    return shlex.join([*words, *options_of_plan(plans[0]), *options_of_arms(pinned), "--fresh"])
