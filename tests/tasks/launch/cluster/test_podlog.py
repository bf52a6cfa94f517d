"""Broken and reopened log streams give each line once, in order, without losses."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("kubernetes", reason="runs on clusters need it: uv sync --extra k8s")

from tasks.launch.cluster.podlog import Gap, LogCursor, PodLog, read_lines, take_entries
from tasks.launch.patience import NotAnswering


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
