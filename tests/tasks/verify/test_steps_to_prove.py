"""The steps of a bucket that need verification; none is read twice."""

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from etils import epath

from tasks.publish.markdown.proofs import list_wrong, proof_rows, proofs_headline, proofs_markdown
from tasks.records.checkpoint_proof import CheckpointProof
from tasks.verify.layout import CheckpointError
from tasks.verify.manifest import manifest_path
from tasks.verify.steps_to_prove import find_steps_since, find_unverified, proof_path, prove
from tasks.verify.verification import verify_checkpoints

HALF_A_DAY = timedelta(hours=12)


@pytest.fixture(params=["local", pytest.param("gs", marks=pytest.mark.long)])
def store(request: pytest.FixtureRequest, trees: Path, tmp_path: Path) -> epath.Path:
    """A store with two runs that have saved, one that has not, and other folders: on this disk, or in a bucket."""
    place = epath.Path(tmp_path / "out" if request.param == "local" else request.getfixturevalue("gcs_url"))
    for name in ("linen", "nnx"):
        for file in (path for path in (trees / name).rglob("*") if path.is_file()):
            target = place / "runs" / name / file.relative_to(trees / name).as_posix()
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.read_bytes())
    for other in ("runs/young/plan.json", "runs/young/checkpoints/4.orbax-checkpoint-tmp/x", "comparisons/a/b.json"):
        (place / other).parent.mkdir(parents=True, exist_ok=True)
        (place / other).write_text("{}")
    return place


def names(wanted: list[str]) -> list[str]:
    return ["/".join(path.split("/")[-3:]) for path in wanted]


def test_a_store_a_run_or_a_step_can_be_given(store: epath.Path) -> None:
    steps = ["linen/checkpoints/2", "linen/checkpoints/4", "nnx/checkpoints/4"]
    assert names(find_steps_since([str(store)])) == steps
    assert names(find_steps_since([str(store / "runs")])) == steps
    run, step = store / "runs" / "linen", store / "runs" / "linen" / "checkpoints" / "2"
    assert names(find_steps_since([str(run), str(step)])) == steps[:2]  # each once
    (committed,) = {proof.committed_at for proof in verify_checkpoints(step)}
    later = datetime.fromisoformat(committed) + timedelta(milliseconds=1)
    assert names(find_steps_since([str(run)], since=later)) == steps[1:2]
    assert find_steps_since([str(run)], since=datetime.now(UTC)) == []


def test_proofs_are_reused_and_damage_is_reported_every_time(store: epath.Path) -> None:
    wanted = find_steps_since([str(store)])
    proofs = [prove(one, deep=False, again_after=HALF_A_DAY) for one in wanted]
    assert [proof.levels[-1] for proof in proofs] == ["content recorded"] * 3
    assert all(manifest_path(epath.Path(one)).exists() for one in wanted)
    assert [prove(one, deep=False, again_after=HALF_A_DAY) for one in wanted] == proofs
    deeper = prove(wanted[0], deep=True, again_after=HALF_A_DAY)
    assert deeper.levels[-2:] == ("content unchanged", "decoded and finite")
    victim = epath.Path(wanted[1]) / "items" / "_sharding"
    victim.write_text("{}")
    assert prove(wanted[1], deep=False, again_after=HALF_A_DAY).ok  # recent enough
    for _ in range(2):
        damaged = prove(wanted[1], deep=False, again_after=timedelta(0))
        assert "items/_sharding" in {problem.path for problem in damaged.problems}
    assert proof_path(epath.Path(wanted[1])).read_text().count('"ok": true') == 1  # failures are not kept


def test_a_path_without_checkpoints_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "runs" / "a" / "checkpoints").mkdir(parents=True)
    for place, words in ((tmp_path, "holds no Orbax checkpoint"), (tmp_path / "no", "does not exist")):
        with pytest.raises(CheckpointError, match=words):
            find_steps_since([str(place)])
    assert not list(tmp_path.rglob("*.json"))


def test_the_summary_shows_problems_and_levels(run_folder: Path) -> None:
    proofs = tuple(verify_checkpoints(run_folder, mode="record"))
    assert proofs_headline(proofs) == "2 checkpoints, all sound"
    (run_folder / "checkpoints" / "9" / "items" / "_sharding").unlink()
    proofs = tuple(verify_checkpoints(run_folder))
    assert proofs_headline(proofs) == "1 of 2 checkpoints not sound"
    assert [row["state"] for row in proof_rows(proofs)] == ["✗ not sound", "✓ sound"]
    text = proofs_markdown(proofs)
    assert "metadata: items/\\_sharding: is missing" in text
    assert "| referentially whole | 1 |" in text
    assert "| committed | 1 |" in text
    shutil.rmtree(run_folder / "checkpoints" / "0")  # the older one, which has a recorded manifest
    retired, _ = verify_checkpoints(run_folder)
    assert (retired.retired, list_wrong([retired])) == (True, [])


def test_unverified_steps_are_found(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    assert find_unverified(None, []) == find_unverified(folder, []) == []
    for name in ("0", "5", "9.orbax-checkpoint-tmp", "notes"):
        (folder / name).mkdir(parents=True)
    (folder / "7").write_text("a file")
    proof = CheckpointProof(step=0, path=str(folder / "0"), ok=True, checks=("commit",))
    assert find_unverified(folder, [proof]) == [folder / "5", folder / "9.orbax-checkpoint-tmp"]
