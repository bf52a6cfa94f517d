"""Parameters that a run did not change are found in its first and last verified checkpoint, where no digest tells."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tasks.diff.examine.arms import ArmRuns
from tasks.diff.examine.assemble_case import with_frozen
from tasks.diff.examine.untrained import find_untrained
from tasks.records.run import RunRecord
from tasks.store.store import open_store
from tasks.verify.compare_checkpoints import find_frozen
from tasks.verify.verification import verify_checkpoints
from tests.tasks.diff.conftest import make_run as build_run

EMBEDDING = "params.params.token_embedder.embedding"
KERNELS = [f"params.params.decoder.layer_{n}.kernel" for n in range(3)]
make_run = build_run


@pytest.fixture
def runs(make_run: Callable[..., RunRecord], save: Callable[..., Path], tmp_path: Path) -> list[RunRecord]:
    """A run whose kernels change from step 0 to 9 (saver.py), and one that saved its first state again."""
    trained, idle = save() / "checkpoints", tmp_path / "checkpoints"
    for step in ("0", "9"):
        shutil.copytree(trained / "0", idle / step)
        for mark in ("commit_success.txt", "items/commit_success.txt"):  # they name the step
            shutil.copy(trained / step / mark, idle / step / mark)
    sides = zip(("a", "b"), (trained, idle), strict=True)
    return [make_run(arm, record={"proofs": tuple(verify_checkpoints(folder))}) for arm, folder in sides]


def test_parameters_of_equal_bits_were_not_trained(runs: list[RunRecord], tmp_path: Path) -> None:
    store = open_store(tmp_path / "out")
    assert find_frozen(runs[0], store) == ((EMBEDDING,), (*KERNELS, EMBEDDING))
    assert find_frozen(runs[1], store) == ((*KERNELS, EMBEDDING), (*KERNELS, EMBEDDING))
    one = runs[0].replace(proofs=runs[0].proofs[:1])
    assert find_frozen(one, store) is None


def test_an_arm_that_trains_what_the_other_freezes_is_named(runs: list[RunRecord], tmp_path: Path) -> None:
    frozen = with_frozen(runs, open_store(tmp_path / "out"))
    arms = [ArmRuns(name=run.arm, label=run.arm, runs=(run,)) for run in frozen]
    found = {one.kind: one.message for one in find_untrained((arms[0], arms[1]))}
    assert found["frozen-in-one-arm"] == f"b did not change {', '.join(KERNELS)} in training, and a did"
    assert EMBEDDING in found["frozen-array"]


@pytest.mark.parametrize("change", ["digests", "other names"])
def test_digests_and_other_names_leave_the_checkpoints_unread(
    runs: list[RunRecord], change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if change == "digests":
        program: dict[str, Any] = {"state": {"arrays": {"x": "01"}}}
        runs[0] = runs[0].replace(program=program)
        monkeypatch.setattr("tasks.diff.examine.assemble_case.find_frozen", lambda *_: pytest.fail("was read"))
    else:
        names = iter([((), ("a",)), ((), ("b",))])
        monkeypatch.setattr("tasks.diff.examine.assemble_case.find_frozen", lambda *_: next(names))
    assert with_frozen(runs, open_store(tmp_path / "out")) == tuple(runs)
