"""The log of a run on a cluster as one file: the cause of its end, its frame, and what it replaces."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from tasks.launch.gathered_log import GatheredLog
from tasks.records.plan import JobCause


def gather(path: Path, lines: list[bytes], cause: JobCause | None, code: int | None) -> list[bytes]:
    def pieces() -> Iterator[bytes]:
        with closing(GatheredLog(path)) as log:
            for line in lines:
                yield from log.add(line)
            yield from log.close_frame(cause, code)

    return list(pieces())


PREEMPTED = JobCause(type="Preempted", message="to make\nroom")
CAUSE = b"maxview: the job was ended: Preempted: to make room\n"


def test_the_cause_is_before_the_end_of_the_frame(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    reported = gather(log, [b"a\n", b"XPK End: now\n", b"EXIT_CODE=143\n"], PREEMPTED, 143)
    assert log.read_bytes() == b"a\n" + CAUSE + b"XPK End: now\nEXIT_CODE=143\n" == b"".join(reported)


def test_a_frame_left_open_by_the_pod_is_closed(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    gather(log, [b"a\n", b"half a li"], None, 137)
    head, end, code = log.read_bytes().rsplit(b"\n", 3)[:3]
    assert head == b"a\nhalf a li"
    assert end.startswith(b"XPK End: ")
    assert code == b"EXIT_CODE=137"


def test_without_an_exit_code_the_frame_stays_open(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    gather(log, [b"a\n"], PREEMPTED, None)
    assert log.read_bytes() == b"a\n" + CAUSE


def test_trainer_output_in_the_form_of_a_frame_is_kept(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    gather(log, [b"EXIT_CODE=9\n", b"b\n", b"XPK End: now\n", b"EXIT_CODE=0\n"], None, 0)
    assert log.read_bytes() == b"EXIT_CODE=9\nb\nXPK End: now\nEXIT_CODE=0\n"


def test_a_log_is_replaced_only_by_a_different_one(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_bytes(b"what an earlier flow has read\n")
    assert gather(log, [], None, None) == []
    assert log.read_bytes() == b"what an earlier flow has read\n"
    gather(log, [b"all of it\n"], None, None)
    assert log.read_bytes() == b"all of it\n"
