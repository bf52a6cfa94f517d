"""The command that runs a comparison again: at the commits that were compared, with what was set by hand."""

import shlex
from types import SimpleNamespace
from typing import Any

from tasks.publish.again import command_again
from tasks.records import ComparisonRecord


def planned(**changes: Any) -> Any:
    """A run of which only the plan counts."""
    plan = {"ref": None, "commit": None, "software": (), "arm": "linen", "config": {}, "origins": {}} | changes
    return SimpleNamespace(plan=SimpleNamespace(compiles_for=None, **plan))


def test_branches_are_named_by_the_commits_they_were(record_002: ComparisonRecord) -> None:
    left = planned(ref="main", commit="a" * 40, config={"steps": 9, "seed": 1}, origins={"steps": "command line"})
    right = planned(ref="feat/x", commit="b" * 40, arm="branch", software=("jax==0.11.1",))
    assert shlex.split(command_again(record_002, left, right)) == [
        "maxview", "compare", "main-vs-branch", "--case", "03_dropout", "--target", "v6e-32",
        "--baseline", "a" * 40, "--branch", "b" * 40, "--with", "branch:jax==0.11.1", "--set", "steps=9", "--fresh",
    ]  # fmt: skip


def test_logs_are_given_again(record_002: ComparisonRecord) -> None:
    gone = SimpleNamespace(plan=None)
    command = command_again(record_002.model_copy(update={"target": "as logged"}), gone, gone)  # type: ignore[arg-type]
    logs = [*record_002.baseline.logs, *record_002.candidate.logs]
    assert shlex.split(command) == ["maxview", "ingest", *logs, "--case", "03_dropout"]
    assert command_again(record_002, None, None) == ""
