"""The states of checkpoints in the messages of Orbax 0.4 to 0.12 (its sources), and restores."""

from typing import Any

import pytest

from tasks.records.checkpoint_proof import CheckpointEvent
from tasks.records.log_reading import RunReading
from tasks.scrape.read_log import scrape_text

PATH = "gs://b/run/checkpoints"

# the messages of each Orbax version for one asynchronous save of step 5 on the primary host, in order, each with the
# state of the checkpoint after it
LIVES = {
    "0.4.8": [
        ("Saving item to {path}/5.", "announced"),
        ("Commit thread error check finished successfully", "background_done"),
        ("Renaming {path}/5.orbax-checkpoint-tmp-1 to {path}/5", "background_done"),
        ("Finished saving checkpoint to `{path}/5`.", "committed"),
    ],
    "0.5.23": [
        ("Saving checkpoint at step 5", "announced"),
        ("Async saving checkpoint to {path}/5.", "announced"),
        ("Finished saving checkpoint to `{path}/5`.", "committed"),
        ("Commit thread error check finished successfully", "committed"),
    ],
    "0.6.4": [
        ("[process=0] Saving checkpoint at step 5", "announced"),
        ("[process=0] Started async saving checkpoint to {path}/5.", "announced"),
        ("[process=0][thread=async_save] Background save thread done.", "background_done"),
        ("[process=0][thread=async_save] Finished saving checkpoint (finalized tmp dir) to `{path}/5`.", "committed"),
        (
            "[process=0][thread=save_finalize][step=5] CheckpointManager Save Finalize is done on all hosts.",
            "validated",
        ),
    ],
    "0.11.10": [
        ("[process=0] Saving checkpoint at step 5", "announced"),
        ("[process=0] Started async saving checkpoint to {path}/5.", "announced"),
        ("Finished blocking save in 1.50 seconds. Continuing to save asynchronously to {path}/5.", "blocking_done"),
        ("[process=0][thread=async_save] Finished saving checkpoint (finalized tmp dir) to `{path}/5`.", "committed"),
        ("Finished asynchronous save (blocking + background) in 42.00 seconds to {path}/5", "committed"),
        (
            "[process=0][thread=save_finalize][step=5] CheckpointManager Save Finalize is done on all hosts.",
            "validated",
        ),
    ],
    "0.11.25": [
        ("[process=0] Saving checkpoint at step 5", "announced"),
        ("[process=0] Started async saving checkpoint to {path}/5.", "announced"),
        ("Finished blocking save. Time taken: 1.500000s. Continuing background save to {path}/5.", "blocking_done"),
        ("{{'step': 5, 'event_type': 'save', 'directory': '{path}', 'reached_preemption': False", "blocking_done"),
        ("Started an asynchronous checkpoint save for step 5", "blocking_done"),
        ("[process=0][thread=async_save] Validated ArrayMetadata from all 8 hosts. Time taken: 0.1s.", "blocking_done"),
        ("[process=0][thread=async_save] Finished saving checkpoint (finalized tmp dir) to `{path}/5`.", "committed"),
        ("Finished async_save (blocking + background). Time taken: 42.000000s. directory={path}/5", "committed"),
        ("[process=0][thread=async_save] Background save thread done. Time taken: 40.500000s.", "committed"),
        (
            "[process=0][thread=save_finalize][step=5] CheckpointManager Save Finalize is done on all hosts.",
            "validated",
        ),
    ],
    "0.12.4": [  # MaxText 0.2.4 and 0.2.5 with enable_checkpointing=true checkpoint_period=5
        ("[process=0] Saving checkpoint at step 5", "announced"),
        ("[process=0] [async] Started save checkpoint @ {path}/5.", "announced"),
        ("[process=0] [async] Finished blocking save in 1.50 seconds. Continuing save @ {path}/5.", "blocking_done"),
        ("{{'step': 5, 'event_type': 'save', 'directory': '{path}', 'reached_preemption': False", "blocking_done"),
        ("[process=0][thread=async_save] Finished saving checkpoint (finalized tmp dir) to `{path}/5`.", "committed"),
        ("[process=0] [async] Finished save (blocking + background) in 42.00 seconds @ {path}/5", "committed"),
        ("[process=0][thread=async_save] Background save thread done. Time taken: 40.500000s.", "committed"),
        (
            "[process=0][thread=save_finalize][step=5] CheckpointManager Save Finalize is done on all hosts.",
            "validated",
        ),
    ],
    "0.12.4, synchronous": [  # … async_checkpointing=false
        ("[process=0] Saving checkpoint at step 5", "announced"),
        ("[process=0] [sync] Started save checkpoint @ {path}/5.", "announced"),
        ("[process=0] [sync] Finished blocking save in 1.50 seconds. Continuing save @ {path}/5.", "blocking_done"),
        ("[process=0][thread=MainThread] Finished saving checkpoint (finalized tmp dir) to `{path}/5`.", "committed"),
        ("[process=0] [sync] Finished save in 42.00 seconds @ {path}/5", "committed"),
        ("[process=0][thread=MainThread][step=5] CheckpointManager Save Finalize is done on all hosts.", "validated"),
    ],
}


def read(logs: Any, *texts: str, code: int | None = 0) -> RunReading:
    data: bytes = logs.framed(*(logs.line(text.format(path=PATH)) for text in texts), code=code or 0)
    if code is None:
        data = data[: data.index(b"XPK End")]
    return scrape_text(data, name="x").runs[0]


def only(run: RunReading) -> CheckpointEvent:
    (event,) = run.checkpoints
    return event


@pytest.mark.parametrize("orbax", LIVES)
def test_every_stage_in_every_wording(logs: Any, orbax: str) -> None:
    life = LIVES[orbax]
    for count, (_, state) in enumerate(life, 1):
        event = only(read(logs, *(text for text, _ in life[:count]), code=None))
        assert (event.step, event.state) == (5, state), life[count - 1][0]
        assert event.committed is (True if state in ("committed", "validated") else None)
    # cut where a line break is missing, each line alone is found too
    assert only(read(logs, " ".join(text for text, _ in life))).state == life[-1][1]


@pytest.mark.parametrize("orbax", ["0.11.25", "0.12.4"])
def test_times(logs: Any, orbax: str) -> None:
    event = only(read(logs, *(text for text, _ in LIVES[orbax])))
    assert (event.blocking_s, event.background_s, event.total_s) == (1.5, 40.5, 42.0)
    assert (event.path, event.validated, event.validated_line) == (f"{PATH}/5", True, len(LIVES[orbax]) + 1)
    assert event.validated_hosts == (8 if orbax == "0.11.25" else None)


def test_a_synchronous_save_blocks_for_its_whole_time(logs: Any) -> None:
    event = only(read(logs, "Saving checkpoint at step 5", "Finished synchronous save in 42.00 seconds to {path}/5"))
    assert (event.blocking_s, event.total_s, event.state) == (42.0, 42.0, "background_done")


OTHER_HOST = [
    "[process=4] Saving checkpoint at step 5",
    "[process=4] [async] Started save checkpoint @ {path}/5.",
    "[process=4][thread=async_save] Background save thread done. Time taken: 40.500000s.",
    "[process=4][thread=save_finalize][step=5] CheckpointManager Save Finalize is done on all hosts.",
]


def test_not_visible_from_this_host_is_a_separate_value(logs: Any) -> None:
    states = [only(read(logs, *OTHER_HOST[:count])).state for count in (1, 2, 3, 4)]
    assert states == ["announced", "announced", "not_visible", "not_visible"]
    event = only(read(logs, *OTHER_HOST))
    assert (event.committed, event.validated, event.committed_line) == (None, True, None)


@pytest.mark.parametrize(("primary", "committed"), [("0", None), ("4", False), ("None", False)])
def test_the_log_shows_which_host_commits(logs: Any, primary: str, committed: bool | None) -> None:
    created = "[process=4][thread=MainThread] CheckpointManager created,  primary_host=" + primary + ", root"
    event = only(read(logs, created, *OTHER_HOST[:3]))
    assert (event.committed, event.state) == (committed, "not_visible" if committed is None else "background_done")


def test_an_announcement_is_never_a_commit(logs: Any) -> None:
    announced = "Started an asynchronous checkpoint save for step 5"
    event = only(read(logs, "[process=0] Saving checkpoint at step 5", announced))
    assert (event.state, event.committed) == ("announced", False)


def test_a_failed_save(logs: Any) -> None:
    failed = (
        "[process=0] Failed to run 3 Handler Commit operations or the Commit callback in background save thread, "
        "directory: {path}/5"
    )
    event = only(read(logs, "[process=0] Saving checkpoint at step 5", failed, code=1))
    assert (event.state, event.failed_line, event.committed) == ("failed", 3, False)


SAVED = ["[process=0] Saving checkpoint at step {n}", "[thread=x] Finished saving checkpoint to `{path}/{n}`."]
# Orbax 0.12.8 with a manager with max_to_keep, with todelete_subdir, and with todelete_full_path
DELETED = ["Deleted step 0.", "Renamed step 0 to {path}/trash/0", "Successfully renamed step 0 to gs://b/trash/0-1"]


@pytest.mark.parametrize("deleted", DELETED)
def test_a_checkpoint_deleted_by_a_manager_was_committed_and_is_retired(logs: Any, deleted: str) -> None:
    lines = [text.replace("{n}", str(n)) for n in (0, 5) for text in SAVED]
    older, newer = read(logs, *lines, "Primary host(0), attempting deletion of step 0.", deleted).checkpoints
    assert (older.state, older.committed, older.retired_line) == ("committed", True, 7)
    assert older.summary == "committed, retired"
    assert (newer.state, newer.retired_line) == ("committed", None)
    assert older.started is not None
    assert older.committed_at is not None
    assert older.started <= older.committed_at


def test_a_step_saved_again_after_a_rewind_is_not_the_deleted_one(logs: Any) -> None:
    lines = [text.replace("{n}", "0") for text in SAVED]
    first, second = read(logs, *lines, "Deleted step 0.", *lines).checkpoints
    assert (first.retired_line, second.retired_line) == (4, None)


# MaxText 0.2.4, run again with more steps in the folder of a run that had saved step 7
RESUMED = [
    "restoring from this run's directory step 7",
    "[process=0] [sync] Started load checkpoint @ {path}/7.",
    "Restoring checkpoint from {path}/7.",
    "[process=0] [sync] Finished blocking load in 0.00 seconds. Continuing load @ {path}/7.",
    "[process=0] [sync] Finished load in 0.06 seconds @ {path}/7",
    "{{'step': 7, 'event_type': 'restore', 'directory': '{path}', 'checkpointer_start_time': 1795236948.1",
]


def test_a_resume_is_one_restore(logs: Any) -> None:
    run = read(logs, *RESUMED)
    (restore,) = run.restores
    assert (restore.step, restore.path, restore.origin) == (7, f"{PATH}/7", "this run")
    assert (restore.finished, restore.seconds, restore.line, restore.finished_line) == (True, 0.06, 2, 6)
    assert run.checkpoints == ()


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["Restoring item from {path}/7/default.", "Finished restoring checkpoint from {path}/7/default."],
         (7, "", True, None)),
        (["Restoring checkpoint from {path}/7.", "Finished restoring checkpoint in 1.25 seconds from {path}/7."],
         (7, "", True, 1.25)),
        (["restoring params from {path}/7/items"], (7, "parameters", False, None)),
        (["Loading full state from path: gs://other/state"], (None, "state", False, None)),
        (["emergency.CheckpointManager: restoring step=7 from local checkpoint using slice_id: 1"],
         (7, "local", False, None)),
        (["Restoring at step 7."], (7, "", False, None)),
    ],
)  # fmt: skip
def test_wordings_of_restores(logs: Any, lines: list[str], expected: tuple[object, ...]) -> None:
    (restore,) = read(logs, *lines).restores
    assert (restore.step, restore.origin, restore.finished, restore.seconds) == expected


def test_later_training_shows_the_end_of_a_restore(logs: Any) -> None:
    data = logs.framed(logs.line("restoring from this run's directory step 7"), logs.step(8), logs.step(9))
    (restore,) = scrape_text(data, name="x").runs[0].restores
    assert (restore.finished, restore.finished_line) == (True, None)


def test_a_checkpoint_restored_in_the_same_log(logs: Any) -> None:
    saved = [text.replace("5", "7") for text, _ in LIVES["0.6.4"]]
    event = only(read(logs, *saved, *RESUMED))
    assert (event.state, event.committed, event.restored_line) == ("restored", True, 7)
    # another run's checkpoint is not this run's
    other = [text.replace("{path}", "gs://b/other/checkpoints") for text in RESUMED[2:5]]
    run = read(logs, *saved, *other)
    assert (only(run).state, run.restores[0].path) == ("validated", "gs://b/other/checkpoints/7")
