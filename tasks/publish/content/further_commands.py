"""Lists what else a reader may want to do with a comparison: share it, gate it, undo the change."""

import shlex
from collections.abc import Sequence
from typing import NamedTuple

from tasks.diff.compare_logs import INGEST
from tasks.diff.judge.next_step import PER_STEP
from tasks.publish.content.verdict_words import outcome_of
from tasks.records.compared_case import ComparisonRecord
from tasks.resolve.refs import WORKING_TREE

QUESTIONS = ("function", "time")  # that a gate may ask


class FurtherCommand(NamedTuple):
    """A command with its purpose in words."""

    purpose: str
    command: str


def list_further(record: ComparisonRecord, out: Sequence[str] = ()) -> list[FurtherCommand]:
    """Return the commands that share the page, make a gate of the comparison, and undo the change.

    out: the option of the store; empty: the default one.
    """
    found = [FurtherCommand("share this page", shlex.join(["maxview", "site", "serve", *out]))]
    if record.comparison != INGEST and not record.programs:
        only = ["--only", ",".join(record.asked)] if record.asked else []
        gate = ",".join(_gate_of(record, question) for question in record.asked or QUESTIONS)
        words = ["maxview", "compare", record.comparison, "--case", record.case, *only, "--gate", gate]
        words += [*_name_refs(record), *out]
        found.append(FurtherCommand("gate it by exit status", shlex.join(words)))
    version = record.code.get(record.candidate.name)
    own = record.commits.get(record.candidate.name, ())
    if version is not None and version.changed:
        found.append(FurtherCommand("undo your changes", shlex.join(["git", "restore", *version.changed])))
    elif version is not None and version.ahead and not version.head:
        base = record.code.get(record.baseline.name)
        if version.ahead == 1:
            found.append(FurtherCommand("undo the commit", shlex.join(["git", "revert", version.sha[:9]])))
        elif base is not None and not base.head:
            span = f"{base.sha[:9]}..{version.sha[:9]}"
            found.append(FurtherCommand("undo the commits", shlex.join(["git", "revert", span])))
    elif version is None and own and outcome_of(record) != "same":
        shas = own[0].sha[:9] if len(own) == 1 else f"{own[-1].sha[:9]}^..{own[0].sha[:9]}"
        found.append(FurtherCommand("undo the commits", shlex.join(["git", "revert", shas])))
    return found


def _gate_of(record: ComparisonRecord, question: str) -> str:
    """Return what counts in a gate. A time has the threshold by which the comparison judges it."""
    shown = (row.threshold_text for row in record.rows if row.metric in PER_STEP and row.threshold_text.endswith("%"))
    return question if question == "function" else f"time={next(shown, '5 %').strip('±').replace(' ', '')}"


def _name_refs(record: ComparisonRecord) -> list[str]:
    """Return the options that name both versions, if these are refs or commits."""
    arms = (record.baseline, record.candidate)
    versions = [record.code.get(arm.name) for arm in arms]
    names = [WORKING_TREE if one.changed else one.name for one in versions if one is not None]
    if len(names) < len(arms):
        names = [arm.commit[:9] for arm in arms if arm.commit]
    if len(set(names)) < len(arms):
        return []
    return [word for pair in zip(("--baseline", "--branch"), names, strict=True) for word in pair]
