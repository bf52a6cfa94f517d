"""Stored logs are replayed as jobs at their original pace, with their checkpoints and exit codes."""

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from configs.errors import ConfigError
from tasks.launch import job
from tasks.launch.logs import read_exit_code, watch
from tasks.launch.replay.settings import Replay
from tasks.records import RunPlan
from tasks.resolve import play_log
from tasks.resolve.plans import Request, resolve
from tasks.resolve.stored_log import find_log, read_log
from tasks.scrape import scrape_run
from tasks.store import RunDirectory

STEP = "completed step: {}, seconds: 0.500, TFLOP/s/device: 1.000, Tokens/s/device: 8.000, loss: 3.{}00"
AT = "I0418 00:{:02}:{:02}.000000 135104514455360 "


def stored_log(*, commit: bool = True, home: str = "/old/runs/a", exit_code: int | None = 0) -> str:
    """Two steps a minute apart, a checkpoint between them."""
    lines = [
        "XPK Start: Sat Apr 18 00:54:24 UTC 2026",
        AT.format(55, 0) + "metric_logger.py:196] " + STEP.format(0, 0),
        AT.format(55, 1) + f"event_tracking.py:70] [process=0] [async] Started save checkpoint @ {home}/checkpoints/0.",
    ]
    if commit:
        lines += [
            AT.format(55, 40) + "atomicity.py:847] [process=0][thread=async_save] Finished saving checkpoint "
            f"(finalized tmp dir) to `{home}/checkpoints/0`."
        ]
    lines += [AT.format(56, 0) + "metric_logger.py:196] " + STEP.format(1, 1)]
    lines += ["XPK End: Sat Apr 18 00:57:24 UTC 2026"] + ([f"EXIT_CODE={exit_code}"] if exit_code is not None else [])
    return "\n".join(lines) + "\n"


@pytest.fixture(autouse=True, scope="module")
def _polars_has_its_threads(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Start polars' threads before a fixture counts open descriptors: they keep some open."""
    log = tmp_path_factory.mktemp("warm") / "log.txt"
    log.write_text(stored_log())
    scrape_run(log)


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """The folder of a stored run with one checkpoint."""
    folder = tmp_path / "stored"
    data = folder / "checkpoints" / "0" / "items" / "d"
    data.mkdir(parents=True)
    (data / "abc").write_bytes(b"payload")
    (folder / "metrics.jsonl").write_text('{"step": 0}\n')
    (folder / "log.txt").write_text(stored_log())
    return folder


def settings(*logs: Path | str, speed: float = float("inf")) -> Replay:
    return Replay(logs=tuple(map(str, logs)), speed=speed)


def plan_for(
    make_plan: Callable[..., RunPlan], log: Path, directory: RunDirectory, speed: float = float("inf")
) -> RunPlan:
    found = find_log(settings(log), case="c", arm="a", repeat=0, where="t.yml")
    return make_plan("", backend="replay", argv=found.play(directory.path, speed=speed).argv)


def test_a_log_is_replayed_to_its_end_with_its_checkpoint(
    make_plan: Callable[..., RunPlan], stored: Path, directory: RunDirectory
) -> None:
    plan = plan_for(make_plan, stored / "log.txt", directory)
    launched = job.launch_or_attach(plan, directory)
    events = list(watch(job.follow(launched, poll_s=0.02)))
    assert [type(event).__name__ for event in events if type(event).__name__ != "LogLine"] == [
        "StepCompleted", "CheckpointStarted", "CheckpointCommitted", "StepCompleted", "RunEnded",
    ]  # fmt: skip
    saved = directory.checkpoints / "0" / "items" / "d" / "abc"
    assert saved.read_bytes() == b"payload"
    assert directory.metrics.read_text() == '{"step": 0}\n'
    assert read_exit_code(directory.log) == 0
    reading = scrape_run(directory.log)
    assert reading.steps["loss"].to_list() == [3.0, 3.1]
    # one frame, the supervisor's; and the checkpoints are this run's
    assert directory.log.read_text().count("EXIT_CODE=") == 1
    assert directory.log.read_text().count("XPK Start:") == 1
    assert [event.path for event in reading.checkpoints] == [str(directory.checkpoints / "0")]


def test_a_checkpoint_that_was_never_committed_stays_unfinished(
    make_plan: Callable[..., RunPlan], stored: Path, directory: RunDirectory
) -> None:
    (stored / "log.txt").write_text(stored_log(commit=False, exit_code=3))
    plan = plan_for(make_plan, stored / "log.txt", directory)
    launched = job.launch_or_attach(plan, directory)
    list(job.follow(launched, poll_s=0.02))
    assert [path.name for path in directory.checkpoints.iterdir()] == ["0.orbax-checkpoint-tmp"]
    assert read_exit_code(directory.log) == 3


def test_a_log_alone_creates_no_checkpoints(
    make_plan: Callable[..., RunPlan], tmp_path: Path, directory: RunDirectory
) -> None:
    log = tmp_path / "alone.txt"
    log.write_text(stored_log())
    plan = plan_for(make_plan, log, directory)
    launched = job.launch_or_attach(plan, directory)
    list(job.follow(launched, poll_s=0.02))
    assert not directory.checkpoints.exists()


def test_lines_appear_at_their_original_pace() -> None:
    data = stored_log().encode()
    places = list(play_log.find_times(data, 0, len(data)))
    assert [seconds for seconds, _ in places] == [0.0, 1.0, 40.0, 60.0]
    assert [data[offset : offset + 20] for _, offset in places] == [
        AT.format(*moment).encode()[:20] for moment in ((55, 0), (55, 1), (55, 40), (56, 0))
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("completed step: 0, seconds: 2.5, x\ncompleted step: 1, seconds: 0.5, x\n", [2.5, 3.0]),
        (" iteration 1/ 20 | elapsed time per iteration (ms): 4493.2 | x\n", [4.4932]),
        ("2026-04-18 10:00:00,250 a\n2026-04-18 10:00:01.5 b\n", [0.0, 1.25]),
        ("I1231 23:59:59.000000 1 a:1] x\nI0101 00:00:00.000000 1 a:1] y\n", [0.0, 1.0]),
        # Orbax names a deadline 20 minutes later: not the time of the line
        (
            "I0418 00:55:01.000000 1 a:76] saves until 2026-04-18 01:15:01.5\nI0418 00:55:02.000000 1 a:1] y\n",
            [0.0, 1.0],
        ),
        ("[default0]: 2026-04-18 10:00:00,250 a\n[default0]: 2026-04-18 10:00:01.5 b\n", [0.0, 1.25]),
        ("no time at all\n", []),
    ],
)
def test_dates_and_durations_in_a_log_set_the_pace(text: str, expected: list[float]) -> None:
    assert [seconds for seconds, _ in play_log.find_times(text.encode(), 0, len(text))] == expected


def test_the_pace_is_the_logs_times_a_factor(stored: Path, directory: RunDirectory) -> None:
    found = read_log(str(stored / "log.txt"), "a", 0)
    started = time.monotonic()
    argv = found.play(directory.path, speed=30.0).argv  # 60 s of log
    played = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    assert time.monotonic() - started >= 2.0
    assert STEP.format(1, 1) in played.stdout


def test_a_replay_ends_at_sigterm(make_plan: Callable[..., RunPlan], stored: Path, directory: RunDirectory) -> None:
    plan = plan_for(make_plan, stored / "log.txt", directory, speed=0.001)
    launched = job.launch_or_attach(plan, directory)
    for piece in job.follow(launched, poll_s=0.02):
        if isinstance(piece, bytes) and b"completed step: 0" in piece:
            job.stop(launched.handle)
    assert read_exit_code(directory.log) == 128 + signal.SIGTERM
    assert not (directory.checkpoints / "0").exists()


def test_the_first_matching_pattern_is_used(tmp_path: Path) -> None:
    for name in ("c/a-r1.txt", "c/a.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(stored_log())
    patterns = settings(tmp_path / "{case}" / "{arm}-r{repeat}.txt", tmp_path / "{case}" / "{arm}.txt")
    for repeat, name in ((0, "a.txt"), (1, "a-r1.txt")):
        assert Path(find_log(patterns, case="c", arm="a", repeat=repeat, where="t").path).name == name
    with pytest.raises(ConfigError, match=r"t: there is no log to play for c b: none of .*/c/b-r0\.txt, .*/c/b\.txt"):
        find_log(patterns, case="c", arm="b", repeat=0, where="t")
    with pytest.raises(ConfigError, match="matches 2 files"):
        find_log(settings(tmp_path / "c" / "*.txt"), case="c", arm="a", repeat=0, where="t")


def test_a_file_that_is_not_a_log_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("dear diary\n")
    with pytest.raises(ConfigError, match=r"a\.txt"):
        find_log(settings(tmp_path / "a.txt"), case="c", arm="a", repeat=0, where="t")


def test_a_replay_is_planned_from_its_log(stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = Request(comparison="linen-vs-nnx", target="replay")
    monkeypatch.delenv("MAXVIEW_REPLAY", raising=False)
    with pytest.raises(ConfigError, match=r"replay\.yml: not set: \$MAXVIEW_REPLAY; "):
        resolve(request, tmp_path / "out")
    monkeypatch.setenv("MAXVIEW_REPLAY", str(tmp_path / "logs"))
    for arm in ("linen", "nnx"):
        (tmp_path / "logs").mkdir(exist_ok=True)
        (tmp_path / "logs" / f"{arm}.txt").write_text(stored_log(home=f"/{arm}"))
    plans = resolve(request, tmp_path / "out")
    assert [plan.backend for plan in plans] == ["replay", "replay"]
    assert [json.loads(plan.argv[-1])["speed"] for plan in plans] == [60.0, 60.0]
    assert [plan.files.checkpoints for plan in plans] == [None, None]  # a log alone has none
    (tmp_path / "logs" / "nnx.txt").write_text(stored_log(home="/another"))
    again = resolve(request, tmp_path / "out")
    assert [plan.identity == before.identity for plan, before in zip(again, plans, strict=True)] == [True, False]
    (tmp_path / "logs" / "checkpoints").mkdir()
    (tmp_path / "logs" / "nnx.txt").touch()
    assert resolve(request, tmp_path / "out")[1].files.checkpoints == "checkpoints"
