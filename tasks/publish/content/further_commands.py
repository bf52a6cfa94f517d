"""Lists what else a reader may want to do with a comparison: share it, gate it, undo the change."""

import shlex
from collections.abc import Sequence
from typing import NamedTuple

from tasks.diff.compare_logs import INGEST
from tasks.records.compared_case import ComparisonRecord
from tasks.resolve.refs import WORKING_TREE

GATES = {"function": "function", "time": "time=5%"}  # question -> what counts in a gate


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
        gate = ",".join(GATES[question] for question in record.asked or GATES)
        words = ["maxview", "compare", record.comparison, "--case", record.case, *only, "--gate", gate]
        words += [*_name_refs(record), *out]
        found.append(FurtherCommand("gate it by exit status", shlex.join(words)))
    version = record.code.get(record.candidate.name)
    if version is not None and version.changed:
        found.append(FurtherCommand("undo your changes", shlex.join(["git", "restore", *version.changed])))
    elif version is not None and version.ahead and not version.head:
        base = record.code.get(record.baseline.name)
        if version.ahead == 1:
            found.append(FurtherCommand("undo the commit", shlex.join(["git", "revert", version.sha[:9]])))
        elif base is not None and not base.head:
            span = f"{base.sha[:9]}..{version.sha[:9]}"
            found.append(FurtherCommand("undo the commits", shlex.join(["git", "revert", span])))
    return found


def _name_refs(record: ComparisonRecord) -> list[str]:
    """Return the options that name both versions, if these are refs."""
    versions = [record.code.get(arm.name) for arm in (record.baseline, record.candidate)]
    if not all(versions):
        return []
    names = [WORKING_TREE if one.changed else one.name for one in versions if one is not None]
    return [word for pair in zip(("--baseline", "--branch"), names, strict=True) for word in pair]
