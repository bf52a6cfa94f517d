"""Real processes: their exit codes, their clean end, and their environment."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from configs.environment import PASSED_ON
from configs.read import CONFIG_ROOT
from tasks.launch import supervise
from tasks.launch.backend import LaunchError
from tasks.launch.local import process_group
from tasks.launch.local.handle import LocalHandle
from tasks.launch.logs import open_locked
from tasks.launch.processes import members
from tasks.records.plan import RunPlan
from tasks.store.atomic import StoreError
from tasks.store.directories import RunDirectory
from tests.tasks.launch.conftest import wait_for
from tests.wording.sentences import Wording, line_with

pytestmark = pytest.mark.flows

type Start = Callable[..., LocalHandle]
type MakePlan = Callable[..., RunPlan]

CREDENTIALS = ("AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "GOOGLE_APPLICATION_CREDENTIALS", "WANDB_API_KEY")
SECRETS = (*CREDENTIALS, "GITHUB_TOKEN", "MAXVIEW_GITHUB_TOKEN", "MAXVIEW_WEBHOOK_URL", "PREFECT_API_KEY", "PREFECT_X")
STAMP = r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ 1-3]\d \d\d:\d\d:\d\d UTC 20\d\d"
PEAK = r"maxview: largest resident memory of a process: \d+ MiB"
SLEEP = "import time; print('up', flush=True); time.sleep(600)"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
)


def text_of(handle: LocalHandle) -> str:
    return Path(handle.log).read_text()


def end_of(handle: LocalHandle) -> str:
    """The whole log of the finished run."""
    wait_for(lambda: not process_group.is_alive(handle))
    return text_of(handle)


def is_up(handle: LocalHandle) -> bool:
    return "up\n" in text_of(handle)


def trainer_of(handle: LocalHandle) -> int:
    """Return the pid of the command under the supervisor; unlike the guard, it leads a process group."""
    (pid,) = [child.pid for child in psutil.Process(handle.pid).children() if os.getpgid(child.pid) == child.pid]
    return pid


def guards_of(handle: LocalHandle) -> list[psutil.Process]:
    """Wait for the guard and return it: the command may start first."""
    children = psutil.Process(handle.pid).children()
    return [child for child in children if child.name() == supervise.GUARD.decode()]


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


# ---------------------------------------------------------------- the frame and the exit code


def test_the_log_is_framed_as_an_xpk_pod_frames_it(start: Start) -> None:
    log = end_of(start("import sys; print('out'); print('err', file=sys.stderr)"))
    assert re.fullmatch(rf"XPK Start: {STAMP}\nout\nerr\n{PEAK}\nXPK End: {STAMP}\nEXIT_CODE=0\n", log)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("pass", 0),
        ("raise SystemExit(1)", 1),
        ("raise SystemExit(42)", 42),
        ("raise RuntimeError('x')", 1),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", 143),
        ("import os; os.abort()", 134),
        ("import signal, sys; signal.signal(15, lambda *_: sys.exit(143)); signal.raise_signal(15)", 143),
    ],
)
def test_exit_codes_are_those_of_a_shell(code: str, expected: int, start: Start) -> None:
    assert end_of(start(code)).endswith(f"\nEXIT_CODE={expected}\n")


def test_the_log_notes_the_largest_memory_of_a_process(start: Start) -> None:
    child = "import sys; kept = bytearray(b'x' * (300 << 20))"
    log = end_of(start(f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}], check=True)"))
    (peak,) = re.findall(r"memory of a process: (\d+) MiB", log)
    assert 300 <= int(peak) < 700  # the literal, its copy, and an interpreter


def test_the_frame_always_starts_on_a_new_line(start: Start) -> None:
    assert re.search(rf"torn\n{PEAK}\nXPK End: ", end_of(start("import os; os.write(1, b'torn')")))


def test_output_arrives_as_it_is_written(start: Start) -> None:
    handle = start(SLEEP)
    wait_for(lambda: is_up(handle))
    assert process_group.is_alive(handle)
    assert "EXIT_CODE" not in text_of(handle)


def test_a_command_that_cannot_start_is_reported(start: Start, wording: Wording) -> None:
    log = end_of(start("", argv=("/nowhere/trainer", "x")))
    wording("log", line_with(log, " /nowhere/trainer: "))
    assert log.endswith("\nEXIT_CODE=127\n")


def test_standard_input_is_empty(start: Start) -> None:
    assert "\n''\n" in end_of(start("import sys; print(repr(sys.stdin.read()))"))


# ---------------------------------------------------------------- ends before its time


def test_kill_9_of_the_trainer_is_137(start: Start) -> None:
    handle = start(SLEEP)
    wait_for(lambda: is_up(handle))
    os.kill(trainer_of(handle), signal.SIGKILL)
    assert end_of(handle).endswith("\nEXIT_CODE=137\n")


def test_stop_gives_the_trainer_its_grace_period(start: Start) -> None:
    code = (
        "import signal, sys, time\n"
        "def end(*_): time.sleep(0.3); print('saved', flush=True); sys.exit(143)\n"
        "signal.signal(signal.SIGTERM, end); print('up', flush=True); time.sleep(600)"
    )
    handle = start(code, grace_s=20.0)
    wait_for(lambda: is_up(handle))
    process_group.stop(handle)
    assert re.search(rf"up\nsaved\n{PEAK}\nXPK End: {STAMP}\nEXIT_CODE=143\n$", text_of(handle))
    assert not process_group.is_alive(handle)
    assert not any(members(handle))


def test_stop_kills_a_trainer_that_ignores_sigterm(start: Start, wording: Wording) -> None:
    handle = start(STUBBORN, grace_s=0.3)
    wait_for(lambda: is_up(handle))
    process_group.stop(handle)
    log = text_of(handle)
    wording("log", line_with(log, " 0.3 s after SIGTERM"))
    assert log.endswith("\nEXIT_CODE=137\n")


def test_stop_gives_up_on_a_supervisor_that_hangs(start: Start) -> None:
    handle = start(SLEEP)
    wait_for(lambda: is_up(handle))
    trainer = trainer_of(handle)
    os.kill(handle.pid, signal.SIGSTOP)
    process_group.stop(handle, grace_s=0.2)
    assert not process_group.is_alive(handle)
    assert is_gone(trainer)


def test_stop_of_an_ended_run_does_nothing(start: Start) -> None:
    handle = start("print('done')")
    log = end_of(handle)
    process_group.stop(handle)
    assert text_of(handle) == log


def test_ctrl_c_in_the_supervisors_terminal_ends_the_run_too(start: Start) -> None:
    handle = start(SLEEP)
    wait_for(lambda: is_up(handle))
    os.kill(handle.pid, signal.SIGINT)
    assert end_of(handle).endswith("\nEXIT_CODE=143\n")


def test_the_time_limit_ends_the_run(start: Start, wording: Wording) -> None:
    handle = start(SLEEP, time_limit_s=1)
    log = end_of(handle)
    wording("log", line_with(log, " 1 s reached"))
    assert log.endswith("\nEXIT_CODE=124\n")


def test_the_time_limit_kills_a_trainer_that_ignores_sigterm(start: Start) -> None:
    # ignored from the start: the limit may come before Python sets its handler
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        handle = start(SLEEP, time_limit_s=1, grace_s=0.3)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    log = end_of(handle)
    assert "killing it\n" in log
    assert log.endswith("\nEXIT_CODE=124\n")


@pytest.mark.parametrize("ignores", [False, True])
def test_no_process_of_the_group_outlives_the_command(ignores: bool, start: Start, tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    child = "import os, signal, sys, time\n"
    child += "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" if ignores else ""
    child += f"open({str(mark)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    code = (
        "import os, subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', {child!r}])\n"
        f"while not (os.path.exists({str(mark)!r}) and open({str(mark)!r}).read()): time.sleep(0.02)\n"
        "print('parent ends')"
    )
    log = end_of(start(code))
    grandchild = int(mark.read_text())
    assert not psutil.pid_exists(grandchild)
    assert log.endswith("\nEXIT_CODE=0\n")


def test_kill_9_of_the_supervisor_kills_the_trainer(start: Start) -> None:
    handle = start(SLEEP)
    wait_for(lambda: is_up(handle))
    trainer = trainer_of(handle)
    os.kill(handle.pid, signal.SIGKILL)
    wait_for(lambda: not process_group.is_alive(handle))
    wait_for(lambda: is_gone(trainer))
    assert "EXIT_CODE" not in text_of(handle)


def test_stop_finds_the_processes_of_a_killed_supervisor(start: Start, tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    child = f"import os, time; open({str(mark)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    handle = start(f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])")
    wait_for(lambda: mark.exists() and mark.read_text())
    grandchild = int(mark.read_text())
    wait_for(lambda: guards_of(handle))
    for guard in guards_of(handle):
        guard.kill()  # it would end the other processes at once
    os.kill(handle.pid, signal.SIGKILL)
    wait_for(lambda: not process_group.is_alive(handle))
    assert psutil.pid_exists(grandchild)  # without the guard, only the supervisor's own child dies with it
    assert grandchild in set(members(handle))
    process_group.stop(handle)
    wait_for(lambda: is_gone(grandchild))


# ---------------------------------------------------------------- the command's arguments and environment


def test_arguments_are_never_interpreted(start: Start, tmp_path: Path) -> None:
    words = [
        "$(touch pwned)",
        "`id`",
        "; exit 3",
        "a b",
        "*",
        "~",
        "$HOME",
        "'\"",
        "\\n",
        "&& false",
        "| tee x",
        "",
        "ü",
    ]
    log = end_of(start("import json, sys; print(json.dumps(sys.argv[1:]))", *words))
    assert json.loads(log.splitlines()[1]) == words
    assert log.endswith("EXIT_CODE=0\n")
    assert not (CONFIG_ROOT.parent / "pwned").exists()


@given(
    caller=st.dictionaries(
        st.sampled_from(
            [
                "JAX_X",
                "JAX_COMPILATION_CACHE_DIR",
                "JAX_PERSISTENT_CACHE_X",
                "XLA_FLAGS",
                "PYTHONPATH",
                "HOME",
                "LC_ALL",
                *SECRETS,
            ]
        )
        | st.text(st.characters(categories=["Lu"])).map("X_{}".format),
        st.text(max_size=5),
    ),
    planned=st.dictionaries(st.sampled_from(["JAX_PLATFORMS", "XLA_FLAGS", "HOME"]), st.text(max_size=5)),
    named=st.lists(st.sampled_from(SECRETS)),
)
def test_the_environment_has_only_variables_that_the_plan_passes_on_or_sets(
    caller: dict[str, str], planned: dict[str, str], named: list[str]
) -> None:
    plan = RunPlan.model_construct(environment=planned, passed_on=(*PASSED_ON, *named), checkout=None, commit=None)
    built = process_group.build_environment(plan, caller)
    for key, value in planned.items():
        assert built[key] == value
    assert built["PYTHONUNBUFFERED"] == "1"  # overrides the caller's
    passed = {"HOME", "LC_ALL", "JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_X"}
    passed |= {name for name in named if name in CREDENTIALS}  # maxview's own variables are never passed on
    assert built.keys() - planned.keys() == (caller.keys() & passed | {"PYTHONUNBUFFERED"}) - planned.keys()
    assert all(built[key] == caller[key] for key in built.keys() & passed - planned.keys())


def test_the_command_sees_that_environment(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--from-the-shell")
    monkeypatch.setenv("PREFECT_API_KEY", "secret")
    for name in SECRETS:
        monkeypatch.setenv(name, "secret")
    dump = "import json, os; print(json.dumps([dict(os.environ), open(f'/proc/{os.getppid()}/environ').read()]))"
    log = end_of(start(dump, passed_on=(*PASSED_ON, "HF_TOKEN")))
    seen, supervisors = json.loads(log.splitlines()[1])
    assert seen["JAX_PLATFORMS"] == "cpu"
    assert seen["HF_TOKEN"] == "secret"
    assert seen["PATH"] == os.environ["PATH"]
    assert "XLA_FLAGS" not in seen
    assert {key for key, value in seen.items() if value == "secret"} == {"HF_TOKEN"}
    assert supervisors.count("secret") == 1  # it can be read from there too


def test_the_command_runs_in_the_trainers_folder(start: Start) -> None:
    assert f"\n{CONFIG_ROOT.parent}\n" in end_of(start("import os; print(os.getcwd())"))


# ---------------------------------------------------------------- one log, one run


def test_a_second_launch_into_one_log_is_refused(start: Start, wording: Wording) -> None:
    first = start(SLEEP)
    wait_for(lambda: is_up(first))
    with pytest.raises(LaunchError, match=r"choose another --out") as error:
        start("print('second')")
    wording("errors", error.value, PID=os.getpid())
    assert "second" not in text_of(first)
    assert process_group.is_alive(first)


def test_a_run_without_a_stored_handle_never_begins(
    make_plan: MakePlan, directory: RunDirectory, tmp_path: Path
) -> None:
    handles: list[LocalHandle] = []

    def refuse(handle: LocalHandle) -> None:
        handles.append(handle)
        raise OSError("no space left")

    plan = make_plan(f"open({str(tmp_path / 'began')!r}, 'w')")
    with pytest.raises(OSError, match="no space left"):
        process_group.launch(plan, directory.log, keep=refuse)
    assert not process_group.is_alive(handles[0])
    assert not (tmp_path / "began").exists()
    assert directory.log.read_bytes() == b""
    os.close(open_locked(directory.log))  # the log's lock is free


def test_a_launcher_killed_before_it_stored_the_handle_starts_nothing(
    make_plan: MakePlan, directory: RunDirectory, tmp_path: Path
) -> None:
    plan = make_plan(f"open({str(tmp_path / 'began')!r}, 'w')")
    code = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom tasks.launch.local import process_group\n"
        "from tasks.records.plan import RunPlan\n"
        "process_group.launch(RunPlan.model_validate_json(sys.argv[1]), Path(sys.argv[2]),\n"
        "    keep=lambda handle: (print(handle.pid, flush=True), os.kill(os.getpid(), signal.SIGKILL)))"
    )
    argv = [sys.executable, "-c", code, plan.model_dump_json(), str(directory.log)]
    result = subprocess.run(argv, cwd=CONFIG_ROOT.parent, capture_output=True, text=True, timeout=300)
    assert result.returncode == -signal.SIGKILL
    pid = int(result.stdout)
    wait_for(lambda: is_gone(pid))
    assert not (tmp_path / "began").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_refused(make_plan: MakePlan, directory: RunDirectory) -> None:
    directory.path.chmod(0o500)
    with pytest.raises(LaunchError, match="Permission denied; choose another --out"):
        process_group.launch(make_plan("pass"), directory.log)


def test_a_log_path_that_is_not_a_file_is_refused(
    make_plan: MakePlan, directory: RunDirectory, wording: Wording
) -> None:
    directory.log.mkdir()
    with pytest.raises(LaunchError, match="Is a directory; choose another --out") as error:
        process_group.launch(make_plan("pass"), directory.log)
    wording("errors", error.value)


# ---------------------------------------------------------------- alive or not


def test_a_reused_pid_is_not_the_run(start: Start) -> None:
    handle = start(SLEEP)
    wait_for(lambda: is_up(handle))
    other = handle.replace(created=handle.created - 60.0)
    assert not process_group.is_alive(other)
    process_group.stop(other)  # must kill nothing
    assert process_group.is_alive(handle)
    assert list(members(other)) == []


@pytest.mark.parametrize("by_s", [3600.0, -3600.0])
def test_a_changed_clock_has_no_effect(start: Start, monkeypatch: pytest.MonkeyPatch, by_s: float) -> None:
    handle = start(SLEEP)
    wait_for(lambda: is_up(handle))
    booted = psutil.boot_time() + by_s  # Linux shows a set clock as a moved boot time
    monkeypatch.setattr(psutil._psplatform, "boot_time", lambda: booted)
    assert process_group.is_alive(handle)
    assert handle.pid in members(handle)
    process_group.stop(handle)
    assert not process_group.is_alive(handle)


def test_a_process_of_an_earlier_boot_is_not_the_run(start: Start) -> None:
    handle = start(SLEEP)
    wait_for(lambda: is_up(handle))
    assert not process_group.is_alive(handle.replace(boot="another"))


def test_an_unused_pid_is_not_alive(start: Start) -> None:
    handle = start("pass")
    end_of(handle)
    assert not process_group.is_alive(handle.replace(pid=2**22 - 1))


def test_an_ended_run_leaves_no_zombie(start: Start) -> None:
    handle = start("pass")
    end_of(handle)
    assert not psutil.pid_exists(handle.pid)


# ---------------------------------------------------------------- files that would block a reader or fill a disk


def test_an_endless_log_is_ended(start: Start, monkeypatch: pytest.MonkeyPatch, wording: Wording) -> None:
    monkeypatch.setattr(process_group, "LOG_LIMIT_MB", 3)
    handle = start("import os\nwhile True: os.write(1, b'x' * 65536 + b'\\n')")
    log = end_of(handle)
    wording("log", line_with(log, " 3 MB, "))
    assert log.endswith(f"\nEXIT_CODE={128 + signal.SIGXFSZ}\n")


def test_a_run_that_fills_its_log_and_ignores_sigterm_is_killed_at_once(
    start: Start,
    monkeypatch: pytest.MonkeyPatch,
    wording: Wording,
) -> None:
    """In two seconds of grace it would write gigabytes."""
    monkeypatch.setattr(process_group, "LOG_LIMIT_MB", 3)
    endless = "import os, signal\nsignal.signal(15, signal.SIG_IGN)\nwhile True: os.write(1, b'x' * 65536 + b'\\n')"
    log = end_of(start(endless))
    wording("log", line_with(log, " 6 MB after SIGTERM"))
    assert "still running" not in log
    assert log.endswith(f"\nEXIT_CODE={128 + signal.SIGXFSZ}\n")


@pytest.mark.parametrize("name", ["metrics.jsonl", "program.json", "log.txt"])
def test_a_pipe_left_by_a_run_is_refused_by_name(name: str, directory: RunDirectory) -> None:
    directory.create()
    os.mkfifo(directory.path / name)
    with pytest.raises(StoreError, match=rf"{name}: is not a regular file.*remove"):
        directory.check_files()
    (directory.path / name).unlink()
    (directory.path / name).symlink_to("/dev/zero")
    with pytest.raises(StoreError, match=rf"{name}: is not a regular file"):
        directory.check_files()


@pytest.mark.parametrize("name", ["metrics.jsonl", "program.json", "log.txt"])
def test_a_link_to_another_runs_file_is_refused_by_name(name: str, directory: RunDirectory, tmp_path: Path) -> None:
    """A branch would pass with the baseline's values."""
    other = tmp_path / "baseline"
    other.write_text("{}\n")
    (directory.create().path / name).symlink_to(other)
    reported = rf"{name}: is a symbolic link to {other}, outside of the run's folder; remove"
    with pytest.raises(StoreError, match=reported):
        directory.check_files()
    (directory.path / name).unlink()
    (directory.path / "logs").mkdir()
    (directory.path / "logs" / name).write_text("{}\n")
    (directory.path / name).symlink_to(f"logs/{name}")
    directory.check_files()


def test_endless_metrics_are_refused(directory: RunDirectory) -> None:
    directory.create().metrics.touch()
    os.truncate(directory.metrics, 1 << 40)
    with pytest.raises(StoreError, match=r"metrics\.jsonl: 1,099\.5 GB, at most 1 GB are read"):
        directory.check_files()


def test_a_pipe_in_place_of_a_record_is_refused(directory: RunDirectory) -> None:
    os.mkfifo(directory.create().record)
    with pytest.raises(StoreError, match="is a pipe"):
        directory.read_record()
