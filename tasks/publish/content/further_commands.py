"""Lists what else a reader may want to do with a comparison: share it, gate it, undo the change."""

import shlex
from collections.abc import Sequence
from typing import NamedTuple

from tasks.diff.compare_logs import INGEST
from tasks.records.compared_case import ComparisonRecord

GATE = "function,time=5%"


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
        words = ["maxview", "compare", record.comparison, "--case", record.case, *only, "--gate", GATE, *out]
        found.append(FurtherCommand("gate it by exit status", shlex.join(words)))
    version = record.code.get(record.candidate.name)
    if version is not None and version.changed:
        found.append(FurtherCommand("undo your changes", shlex.join(["git", "restore", *version.changed])))
    elif version is not None and version.ahead == 1 and not version.head:
        found.append(FurtherCommand("undo the commit", shlex.join(["git", "revert", version.sha[:9]])))
    return found
