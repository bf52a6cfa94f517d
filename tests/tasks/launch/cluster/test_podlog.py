"""Broken and reopened log streams give each line once, in order, without losses."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("kubernetes", reason="runs on clusters need it: uv sync --extra k8s")

from tasks.launch.cluster.podlog import Gap, LogCursor, PodLog, read_lines, take_entries
from tasks.launch.gathered_log import GatheredLog
from tasks.launch.patience import NotAnswering
from tasks.records import JobCause


def stamped(log: list[tuple[int, str]]) -> list[bytes]:
    """Lines with the kubelet's times: (tenths of a second, text)."""
    return [f"2026-11-21T05:00:{tenths // 10:02d}.{tenths % 10}00000000Z {text}\n".encode() for tenths, text in log]


logs = st.lists(st.tuples(st.integers(0, 599), st.sampled_from(["a", "b", "same", ""])), max_size=40).map(sorted)


@given(log=logs, cuts=st.lists(st.integers(0, 1500), max_size=8), sizes=st.integers(1, 60))
def test_every_line_is_taken_once_however_often_the_stream_breaks(
    log: list[tuple[int, str]], cuts: list[int], sizes: int
) -> None:
    lines = stamped(log)
    cursor = LogCursor()
    taken: list[bytes] = []
    for cut in [*cuts, None]:
        since = cursor.since
        cursor.open_again()
        data = b"".join(line for line in lines if since is None or line[:19].decode() >= since[:19])[:cut]
        for line, whole in read_lines(data[at : at + sizes] for at in range(0, len(data), sizes)):
            if whole and (text := cursor.take(line)) is not None:
                taken.append(text)
    assert taken == [line.partition(b" ")[2] for line in lines]


def test_a_truncated_line_is_marked() -> None:
    assert list(read_lines([b"a\nb", b"b\n", b"c"])) == [(b"a\n", True), (b"bb\n", True), (b"c", False)]


def test_cloud_logging_continues_after_the_pods_last_line() -> None:
    cursor = LogCursor()
    for line in stamped([(0, "a"), (12, "b"), (13, "c")]):
        cursor.take(line)
    entries: list[dict[str, object]] = [
        {"timestamp": "2026-11-21T05:00:01.2Z", "textPayload": "b"},
        {"timestamp": "2026-11-21T05:00:01.3Z", "textPayload": "c\n"},
        {"timestamp": "2026-11-21T05:00:01.4Z", "jsonPayload": {"message": "d"}},
        {"timestamp": "2026-11-21T05:00:02Z"},
    ]
    assert list(take_entries(entries, cursor)) == [b"d\n", b"\n"]


def opened_again(before: list[bytes], after: list[bytes]) -> tuple[list[bytes], list[Gap]]:
    """Return the lines taken from a reopened log, and its gaps."""
    cursor, taken, gaps = LogCursor(), list[bytes](), list[Gap]()
    for part in (before, after):
        cursor.open_again()
        for line in part:
            gaps += [gap] if (gap := cursor.find_gap(line)) else []
            taken += [text] if (text := cursor.take(line)) is not None else []
    return taken, gaps


LINES = stamped([(0, "XPK Start: now"), (12, "b"), (13, "c"), (14, "d"), (31, "e"), (32, "f")])


def test_a_continued_log_has_no_gap() -> None:
    taken, gaps = opened_again(LINES[:3], LINES[1:])
    assert (taken, gaps) == ([line.partition(b" ")[2] for line in LINES], [])


@pytest.mark.parametrize("first", [3, 4])  # in the second of the last line, and after it
def test_a_rotated_log_has_a_gap_between_the_last_line_and_the_next(first: int) -> None:
    taken, gaps = opened_again(LINES[:2], LINES[first:])
    assert taken == [line.partition(b" ")[2] for line in (*LINES[:2], *LINES[first:])]
    assert [(gap.after, gap.before) for gap in gaps] == [
        ("2026-11-21T05:00:01.200000000Z", LINES[first].partition(b" ")[0].decode())
    ]


def test_a_log_with_a_rotated_start_has_a_gap_there() -> None:
    _, gaps = opened_again([], LINES[2:])
    assert [(gap.after, gap.before) for gap in gaps] == [(None, "2026-11-21T05:00:01.300000000Z")]


def test_times_in_another_zone_are_equal() -> None:
    cursor = LogCursor()
    cursor.take(b"2026-11-21T07:00:01.5+02:00 XPK Start: now\n")
    assert cursor.since == "2026-11-21T05:00:01Z"


def test_an_error_message_of_the_kubelet_is_not_a_line() -> None:
    with pytest.raises(ValueError, match="unable"):
        LogCursor().take(b"unable to retrieve container logs for containerd://4711\n")


# ---------------------------------------------------------------- the file that they are gathered in


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


def test_a_log_is_requested_no_sooner_than_retry_after(monkeypatch: pytest.MonkeyPatch) -> None:
    class Overloaded:
        @contextmanager
        def log(self, *_: str, **__: str) -> Iterator[Iterator[bytes]]:
            raise NotAnswering("429 Too Many Requests", 7.0)
            yield iter(())

    pump = PodLog(Overloaded(), "pod", "jax-tpu", LogCursor(), lambda: False)  # type: ignore[arg-type]
    waits: list[float | None] = []

    def wait(seconds: float | None = None) -> bool:
        waits.append(seconds)
        pump.close()
        return True

    monkeypatch.setattr(pump._give_up, "wait", wait)
    pump.run()
    assert waits == [7.0]
