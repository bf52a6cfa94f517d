"""What a log tells of a run's place and of its end."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.ingest.log_causes import find_end, with_cause, with_frame, with_place
from tasks.records.log_reading import RunReading
from tasks.records.run_end import LogError
from tasks.scrape.read_log import scrape_run
from tasks.store.directories import RunDirectory
from tests.tasks.ingest.conftest import LOG

# ---------------------------------------------------------------- where it ran


@pytest.mark.parametrize(
    ("notes", "place"),
    [
        ((), None),
        (("c: n1, n2",), "cluster c: n1, n2"),
        (("c: n1", "c: n1"), "cluster c: n1"),
        (("c: n1", "c: n2"), "cluster c: n1; then cluster c: n2"),  # it was restarted
    ],
)
def test_the_launchers_note_gives_the_place_of_a_run(
    notes: tuple[str, ...], place: str | None, reading_of: Callable[..., RunReading], directory: RunDirectory
) -> None:
    noted = "".join(f"maxview: the job ran on cluster {note}\n" for note in notes)
    reading = reading_of(0, LOG.replace("XPK End", f"{noted}XPK End"))
    assert with_place(reading, directory.log).environment.place == place


# ---------------------------------------------------------------- why it ended


FRAMES = """\
Traceback (most recent call last):
  File "/k/checkouts/a1/model/loop.py", line 9, in train
  File "/k/checkouts/a1/model/layers.py", line 32, in norm
  File "/k/checkouts/a1/.venv/lib/site-packages/jax/numpy.py", line 7, in sqrt
TypeError: no number
"""


@pytest.mark.parametrize(
    ("root", "place"),
    [("/k/checkouts/a1", "model/layers.py:32 in norm"), ("/k/checkouts/b2", ""), (None, "")],
)
def test_the_place_of_an_error_is_its_last_frame_in_the_checkout(
    root: str | None, place: str, directory: RunDirectory
) -> None:
    directory.log.write_text(LOG.format(code=1).replace("XPK End", f"{FRAMES}XPK End"))
    error = with_frame(scrape_run(directory.log), directory.log, root).error
    assert error is not None
    assert (error.type, error.place) == ("TypeError", place)


@pytest.mark.parametrize(
    ("code", "kind", "message"),
    [
        (124, "TimeLimit", "the time limit was reached"),
        (127, "CannotStart", "the command could not be started"),
        (1, "ExitCode", "ended with exit code 1 and no exception in its log"),
    ],
)
def test_an_exit_code_is_a_cause_with_its_line(
    code: int, kind: str, message: str, reading_of: Callable[..., RunReading], directory: RunDirectory
) -> None:
    error = with_cause(reading_of(code), directory.log, supervised=True).error
    assert error is not None
    assert (error.type, error.message, error.line) == (kind, message, 5)
    assert directory.log.read_bytes()[error.offset :].startswith(f"EXIT_CODE={code}".encode())


@pytest.mark.parametrize(
    ("code", "death"), [(124, "timeout"), (127, "configuration"), (2, "configuration"), (1, "other")]
)
def test_an_exit_code_has_a_class(
    code: int, death: str, reading_of: Callable[..., RunReading], directory: RunDirectory
) -> None:
    reading = with_cause(reading_of(code), directory.log, supervised=True)
    assert reading.error is not None
    assert (reading.error.kind, reading.fate) == (death, death)


@pytest.mark.parametrize(
    ("code", "signal", "death", "message"),
    [
        (137, "SIGKILL", "killed", "ended by signal 9 (SIGKILL): kill -9, or out of memory"),
        (143, "SIGTERM", "killed", "ended by signal 15 (SIGTERM)"),
        (139, "SIGSEGV", "other", "ended by signal 11 (SIGSEGV)"),
    ],
)
def test_a_signal_is_the_cause_that_the_log_shows(
    code: int, signal: str, death: str, message: str, directory: RunDirectory
) -> None:
    directory.log.write_text(LOG.format(code=code))
    error = with_cause(scrape_run(directory.log), directory.log, supervised=True).error
    assert error is not None
    assert (error.type, error.kind, error.message, error.line) == (signal, death, message, 5)


LOGGED = "I0418 00:55:39.221671 135 train.py:70] Config param steps: 3\n"


@pytest.mark.parametrize(
    ("said", "message", "line"),
    [
        (
            "steps=3: it has already trained 5 steps (set a larger steps)\n",
            "steps=3: it has already trained 5 steps (set a larger steps)",
            3,
        ),
        ("a: is bad\nb: is bad\n\n", "a: is bad; b: is bad", 3),
        ("torn, without a line break", "torn, without a line break", 3),
        ("said before\n" + LOGGED + "the last word\n", "the last word", 5),
        ("=== Source Location Trace: ===\nlearning/x/init.cc:370\nthere is no TPU\n", "there is no TPU", 5),
        (LOGGED * 2, "ended with exit code 2 and no exception in its log", 6),
    ],
)
def test_the_message_of_a_trainer_that_refused_its_config_is_the_cause(
    said: str, message: str, line: int, reading_of: Callable[..., RunReading], directory: RunDirectory
) -> None:
    broken = "" if said.endswith("\n") else "\n"
    text = f"XPK Start: x\n{LOGGED}{said}{broken}XPK End: x\nEXIT_CODE={{code}}\n"
    reading = with_cause(reading_of(2, text), directory.log, supervised=True)
    assert reading.error is not None
    assert (reading.error.message, reading.error.line, reading.fate) == (message, line, "configuration")
    expected = "EXIT_CODE=2" if message.startswith("ended with") else message.partition(";")[0]
    assert directory.log.read_text().splitlines()[line - 1] == expected


def test_a_missing_exit_code_is_a_cause(reading_of: Callable[..., RunReading], directory: RunDirectory) -> None:
    error = with_cause(
        reading_of(None, "XPK Start: x\ncompleted step: 0\ncompleted st"), directory.log, supervised=True
    ).error
    assert error is not None
    assert (error.type, error.line, error.offset) == ("Killed", 3, 31)


def test_in_a_log_that_never_has_an_exit_code_its_absence_means_nothing(
    reading_of: Callable[..., RunReading], directory: RunDirectory
) -> None:
    reading = reading_of(None, "a log\nwithout a frame\n")
    assert with_cause(reading, directory.log, supervised=False) == reading


def test_a_run_that_ended_well_needs_no_cause(reading_of: Callable[..., RunReading], directory: RunDirectory) -> None:
    assert with_cause(reading_of(0), directory.log, supervised=True).error is None


def test_an_exception_is_the_better_cause(reading_of: Callable[..., RunReading], directory: RunDirectory) -> None:
    error = LogError(type="ValueError", message="x", line=2, offset=13)
    assert with_cause(reading_of(1, error=error), directory.log, supervised=True).error == error


@pytest.mark.parametrize(
    ("text", "span", "line", "offset"),
    [
        ("", (0, 0), 1, 0),
        ("one line", (0, 0), 1, 0),
        ("a\nb\n\n  \n", (0, 0), 2, 2),
        ("a EXIT_CODE=1 b", (0, 0), 1, 2),
        ("first\nEXIT_CODE=0\nsecond\nEXIT_CODE=1\n", (0, 18), 2, 6),  # two runs in one file
        ("first\nEXIT_CODE=0\nsecond\nEXIT_CODE=1\n", (18, 37), 4, 25),
        ("first\nEXIT_CODE=0\nsecond\nthird\n", (18, 31), 4, 25),
    ],
)
def test_the_end_of_a_runs_text(text: str, span: tuple[int, int], line: int, offset: int, tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text(text)
    place = find_end(log, span)
    assert (place.line, place.offset) == (line, offset)
