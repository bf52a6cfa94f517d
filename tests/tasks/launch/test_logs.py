"""One log of an interrupted run: earlier attempts come first, and a flow may be killed in between."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tasks.launch import logs
from tasks.launch.logs import list_earlier_logs, rejoin_attempts, rename_earlier_log
from tasks.scrape.read_log import scrape_run, scrape_text


def attempt(steps: Sequence[int], end: str) -> str:
    lines = "".join(
        f"completed step: {step}, seconds: 0.500, TFLOP/s/device: 1.000, loss: {9 - step}.000\n" for step in steps
    )
    return f"XPK Start: Sat Apr 18 00:54:24 UTC 2026\n{lines}{end}"


KILLED = "XPK End: Sat Apr 18 00:55:24 UTC 2026\nEXIT_CODE=137\n"
ENDED = "XPK End: Sat Apr 18 00:56:24 UTC 2026\nEXIT_CODE=0\n"


@pytest.fixture(scope="module", autouse=True)
def _readers_are_warm() -> None:
    """The threads that read tables keep file descriptors."""
    scrape_text(attempt([0, 1], ENDED).encode(), name="x")


def write(folder: Path, *attempts: str) -> Path:
    log = folder / "log.txt"
    for text in attempts:
        rename_earlier_log(log)
        log.write_text(text)
    return log


@pytest.mark.parametrize(
    ("attempts", "steps", "taken"),
    [
        pytest.param([attempt([0, 1, 2], KILLED), attempt([2, 3], ENDED)], [0, 1, 2, 2, 3], [0, 1], id="a step again"),
        pytest.param([attempt([0, 1, 2, 3], KILLED), attempt([], ENDED)], [0, 1, 2, 3], [0, 1], id="killed at its end"),
        pytest.param([attempt([0, 1], ""), attempt([2, 3], ENDED)], [0, 1, 2, 3], [0, 1], id="with its supervisor"),
        pytest.param([attempt([0, 1], "I0418 torn"), attempt([2], ENDED)], [0, 1, 2], [0, 1], id="in mid-line"),
        pytest.param([attempt([0, 1], KILLED), attempt([0, 1, 2], ENDED)], [0, 1, 2], [1], id="nothing was committed"),
        pytest.param(
            [attempt([0, 1, 2], KILLED), attempt([], KILLED), "", attempt([2], KILLED), attempt([2, 3], ENDED)],
            [0, 1, 2, 2, 3], [0, 3], id="attempts that came to nothing",
        ),
        pytest.param(
            [attempt([0, 1], KILLED), attempt([2, 3], KILLED), attempt([4], ENDED)], [0, 1, 2, 3, 4], [0, 1, 2],
            id="twice",
        ),
        pytest.param([attempt([0, 1, 2], KILLED), attempt([2, 3], KILLED)], [2, 3], [1], id="it died again"),
    ],
)  # fmt: skip
def test_a_log_contains_all_attempts_of_its_run(
    tmp_path: Path, attempts: list[str], steps: list[int], taken: list[int]
) -> None:
    log = write(tmp_path, *attempts)
    kept = [text for text in attempts if text]  # an empty log is not kept
    rejoin_attempts(log)
    reading = scrape_run(log)
    assert reading.steps["step"].to_list() == steps
    written = [text for text in kept if text in log.read_text()]
    assert written == [kept[number] for number in taken]
    assert reading.exit_code == int(kept[-1].rpartition("EXIT_CODE=")[2])
    assert (reading.error is None) == (reading.exit_code == 0)
    joined = log.read_bytes()
    rejoin_attempts(log)  # the flow was killed before it wrote the run's record
    assert log.read_bytes() == joined
    assert len(list_earlier_logs(log)) == len(kept) - 1
    assert not list(tmp_path.glob(".*"))


def test_the_exception_of_an_attempt_is_not_the_runs(tmp_path: Path) -> None:
    lost = 'Traceback (most recent call last):\n  File "a.py", line 9, in h\n    f()\nRuntimeError: lost a slice\n'
    log = write(tmp_path, attempt([0, 1], lost + KILLED), attempt([1, 2], ENDED))
    rejoin_attempts(log)
    reading = scrape_run(log)
    assert (reading.exit_code, reading.error, reading.fate) == (0, None, "finished")
    assert reading.coverage.rewinds == 1
    for line, step in reading.steps.select("line", "step").iter_rows():
        assert f"completed step: {step}," in log.read_text().splitlines()[line - 1]


def test_logs_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    log = write(tmp_path, *(f"attempt {number}\n" for number in range(12)))
    (tmp_path / "log.old.txt").write_text("somebody's copy\n")
    assert [path.read_text() for path in list_earlier_logs(log)] == [f"attempt {number}\n" for number in range(11)]


def test_a_log_without_earlier_attempts_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = write(tmp_path, attempt([0, 1], ENDED))
    monkeypatch.setattr(logs, "scrape_run", lambda _: pytest.fail("it may have gigabytes, and is read again"))
    rejoin_attempts(log)
