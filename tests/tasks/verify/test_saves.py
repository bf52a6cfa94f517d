"""The timeline of each save from log and store: times, durations of its parts, and level of proof."""

from typing import Any

from tasks.records.checkpoint_proof import CheckpointEvent, CheckpointProof, reached
from tasks.records.log_reading import RunReading
from tasks.records.run import RunRecord
from tasks.verify.saves import lives_of

PLACE = "/out/runs/linen-r0/checkpoints"


def event(step: int, second: int, **more: Any) -> CheckpointEvent:
    """Announced `second` seconds after the start of the run, committed 3 s later."""
    times = {"started": f"2026-11-18T10:00:{second:02d}.000", "committed_at": f"2026-11-18T10:00:{second + 3:02d}.000"}
    return CheckpointEvent(**{"step": step, "committed": True, "line": second, "offset": second, **times, **more})


def proof(step: int, second: int, **more: Any) -> CheckpointProof:
    """Committed 3 s after `second`, verified within the second that ends 5 s after it."""
    fields: dict[str, Any] = {
        "step": step,
        "path": f"{PLACE}/{step}",
        "ok": True,
        "checks": ("commit", "metadata", "ranges", "manifest"),
        "bytes": 2_000_000,
        "committed_at": f"2026-11-18T10:00:{second + 3:02d}+00:00",
        "verified_at": f"2026-11-18T10:00:{second + 5:02d}+00:00",
        "timings": {"commit": 0.5, "manifest": 0.5},
    }
    fields |= more
    fields.setdefault("levels", reached(fields["checks"], {one.check for one in fields.get("problems", ())}))
    return CheckpointProof(**fields)


def run(events: tuple[CheckpointEvent, ...], proofs: tuple[CheckpointProof, ...], **record: Any) -> RunRecord:
    """A run that began at ten o'clock, with the contents of its log and its folder."""
    reading = RunReading(name="linen-r0", format="maxview", started="2026-11-18T10:00:00+00:00", checkpoints=events)
    known = {"plan": None, "arm": "linen", "label": "linen", "commit": None, "log": "/out/runs/linen-r0/log.txt"}
    return RunRecord(**{**known, "reading": reading, "proofs": proofs, **record})


def test_a_complete_timeline_in_seconds_from_the_start_of_the_run() -> None:
    saved = event(0, 10, blocking_s=1.0, background_s=2.0)
    (life,) = lives_of([run((saved,), (proof(0, 10),))])
    assert (life.step, life.announced_s, life.committed_s) == (0, 10.0, 13.0)
    spans = [(span.part, span.begin_s, span.seconds, span.bytes_per_s) for span in life.spans]
    assert spans == [
        ("blocking", 10.0, 1.0, None),
        ("background", 11.0, 2.0, 1e6),
        ("commit", 14.0, 0.5, None),
        ("manifest", 14.5, 0.5, 4e6),
    ]
    assert life.level == "content recorded"


def test_a_log_in_another_time_zone_is_shifted_to_the_clock_of_the_store() -> None:
    there = {"started": "2026-11-18T12:00:10.000", "committed_at": "2026-11-18T12:00:13.200"}  # two hours ahead
    (life,) = lives_of([run((event(0, 10, **there),), (proof(0, 10),))])
    assert (life.announced_s, life.committed_s) == (10.0, 13.0)


def test_a_step_saved_again_has_two_timelines_and_one_proof() -> None:
    first, second = lives_of([run((event(5, 10), event(5, 20)), (proof(5, 20),))])
    assert (first.nth, first.overwritten, first.level) == (1, True, "committed")
    assert (second.nth, second.overwritten, second.level) == (2, False, "content recorded")


def test_a_retired_checkpoint_keeps_its_level() -> None:
    gone = proof(0, 10, ok=False, retired=True, checks=("commit",), levels=())
    for events, proofs in (((event(0, 10, retired_line=40),), ()), ((event(0, 10),), (gone,))):
        (life,) = lives_of([run(events, proofs)])
        assert (life.retired, life.level) == (True, "committed")


def test_a_checkpoint_continued_by_the_other_arm_has_the_highest_level() -> None:
    arm = run((event(0, 10), event(5, 20)), (proof(0, 10), proof(5, 20)))
    for holds, level in ((True, "restored and continued"), (False, "content recorded"), (None, "content recorded")):
        crossing = {"from": "linen-r0", "restored_step": 0, "holds": holds, "evidence": ""}
        other = run((), (), program={"cross_restore": crossing})
        first, second = lives_of([arm], [other])
        assert (first.level, second.level) == (level, "content recorded")


def test_an_announcement_alone_has_the_lowest_level() -> None:
    announced = event(0, 10, committed=False, committed_at=None)
    (life,) = lives_of([run((announced,), ())])
    assert (life.level, life.committed_s, life.spans) == ("announced", None, ())


def test_a_save_missing_in_the_log() -> None:
    (life,) = lives_of([run((), (proof(0, 10, begun_at="2026-11-18T10:00:10+00:00"),))])
    assert (life.announced_s, life.committed_s) == (10.0, 13.0)
