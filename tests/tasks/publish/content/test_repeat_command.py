"""The command that repeats a comparison: at the compared commits, with its options."""

import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tasks.publish.content.repeat_command import repeat_command
from tasks.records import ComparisonRecord
from tasks.resolve.plans import Request, resolve


def planned(out: Path, **changes: Any) -> Any:
    """The runs of both arms; only their plans matter."""
    request = Request(
        comparison="linen-vs-nnx", target="v6e-32", model="tiny", overrides=("steps=9",), compile_only=True
    )
    left, right = resolve(request, out)[:2]
    return [
        SimpleNamespace(plan=plan.model_copy(update={"ref": ref, "commit": letter * 40} | changes))
        for plan, ref, letter in ((left, "main", "a"), (right, "feat/x", "b"))
    ]


@pytest.mark.parametrize(("verb", "topology"), [("compare", None), ("preflight", "v6e:4x8")])
def test_branches_become_commits_and_all_options_are_kept(
    verb: str, topology: str | None, record_002: ComparisonRecord, tmp_path: Path
) -> None:
    runs = planned(tmp_path, compiles_for=topology, software=("python /usr/bin/python3",))
    assert shlex.split(repeat_command(record_002, *runs)) == [
        "maxview", verb, "main-vs-branch", "--case", "03_dropout", "--target", "v6e-32",
        "--model", "tiny", "--set", "steps=9", "--out", str(tmp_path), "--baseline", "a" * 40, "--branch", "b" * 40,
        "--with", "linen:/usr/bin/python3", "--with", "nnx:/usr/bin/python3", "--fresh",
    ]  # fmt: skip


def test_logs_are_passed_again(record_002: ComparisonRecord) -> None:
    gone = SimpleNamespace(plan=None)
    logged = record_002.model_copy(update={"target": "as logged", "next_command": ""})
    command = repeat_command(logged, gone, gone)  # type: ignore[arg-type]
    logs = ["--baseline", *record_002.baseline.logs, "--candidate", *record_002.candidate.logs]
    store = str(Path(record_002.baseline.logs[0]).parent.parent.parent)
    assert shlex.split(command) == ["maxview", "ingest", *logs, "--case", "03_dropout", "--out", store]
    assert repeat_command(logged, None, None) == ""
    next_one = logged.model_copy(update={"next_command": command})
    assert repeat_command(next_one, gone, gone) == ""  # type: ignore[arg-type] # the page has it already
