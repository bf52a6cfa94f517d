"""Log and verification of a checkpoint in one line."""

from tasks.publish.content.checkpoints import list_checkpoints
from tasks.records.checkpoint_proof import CheckpointEvent, CheckpointLife, CheckpointProof, Restore
from tasks.records.compared_case import ComparisonRecord
from tests.wording.sentences import Wording


def event(step: int, path: str | None, committed: bool | None = True) -> CheckpointEvent:
    return CheckpointEvent(step=step, path=path, committed=committed, line=1, offset=0)


def proof(step: int, path: str) -> CheckpointProof:
    return CheckpointProof(step=step, path=path, ok=True, checks=("commit",))


def test_each_state_is_named(record_000: ComparisonRecord, record_002: ComparisonRecord) -> None:
    assert [line.state for line in list_checkpoints(record_000.baseline)] == ["proved", "damaged"]
    assert [line.state for line in list_checkpoints(record_002.baseline)] == ["unproved"]
    assert [line.state for line in list_checkpoints(record_002.candidate)] == ["committed"]
    assert list_checkpoints(record_000.candidate) == []


def test_the_log_of_an_interrupted_save_is_not_a_checkpoint(record_000: ComparisonRecord) -> None:
    arm = record_000.baseline.replace(checkpoints=(event(9, None, committed=False),), proofs=())
    assert [line.state for line in list_checkpoints(arm)] == ["uncommitted"]


def test_repeats_that_save_the_same_step_have_separate_proofs(record_000: ComparisonRecord) -> None:
    arm = record_000.baseline.replace(
        checkpoints=(event(0, "/out/a/checkpoints/0"), event(0, "/out/b/checkpoints/0")),
        proofs=(proof(0, "/out/b/checkpoints/0"),),
        lives=(),
    )
    first, second = list_checkpoints(arm)
    assert (first.state, first.path) == ("committed", "/out/a/checkpoints/0")
    assert (second.state, second.path) == ("proved", "/out/b/checkpoints/0")
    assert (first.run, second.run) == (0, 0)  # an arm of one run has no run numbers


def test_repeats_are_numbered_and_each_fact_is_shown_once(record_000: ComparisonRecord) -> None:
    saved = event(0, "c/0").replace(arrays=39, background_s=44.0)
    proved = proof(0, "c/0").replace(arrays=39)
    life = CheckpointLife(run=0, step=0, committed_s=9.0)
    update = {
        "runs": ("a", "b"),
        "checkpoints": (saved, saved.replace(run=1)),
        "proofs": (proved,),
        "lives": (life,),
    }
    first, second = list_checkpoints(record_000.baseline.replace(**update), timeline=True)
    assert (first.run, second.run) == (1, 2)
    assert (first.log, "39 arrays" in first.proof) == (
        "committed",
        True,
    )  # each is shown elsewhere
    assert second.log == "committed, 39 arrays"


def test_a_checkpoint_found_only_by_verification_is_listed(record_000: ComparisonRecord) -> None:
    arm = record_000.baseline.replace(checkpoints=(), proofs=(proof(3, "c/3"),))
    (line,) = list_checkpoints(arm)
    assert (line.step, line.state, line.log, line.source) == ("3", "proved", "not mentioned", None)


def test_the_restored_checkpoint_comes_first(record_000: ComparisonRecord, wording: Wording) -> None:
    restore = Restore(step=7, path="/out/a/checkpoints/7", finished=True, seconds=0.06, line=12, offset=99)
    arm = record_000.baseline.replace(restores=(restore,))
    first, *rest = list_checkpoints(arm)
    assert rest == list_checkpoints(record_000.baseline)
    assert (first.step, first.state) == ("7", "committed")
    for part in ("step 7 ", restore.path, "0.06 s"):
        assert part in first.log
    wording("parts", first.log)
    assert first.source is not None
    assert first.source.line == 12


def test_a_commit_printed_by_another_host_is_marked(record_000: ComparisonRecord, wording: Wording) -> None:
    seen = event(9, None, committed=None).replace(state="not_visible", validated=True)
    arm = record_000.baseline.replace(checkpoints=(seen,), proofs=())
    (line,) = list_checkpoints(arm)
    assert line.state == "unproved"
    wording("parts", line.log)
