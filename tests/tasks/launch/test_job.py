"""Launching, attaching from another process, and restarting interrupted runs."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from configs.read import CONFIG_ROOT, read_yaml
from tasks.launch import supervise
from tasks.launch.backend import LaunchedRun, LaunchError
from tasks.launch.job import launch_or_attach
from tasks.launch.known_backends import read_handle
from tasks.launch.local import process_group
from tasks.launch.local.handle import LocalHandle
from tasks.launch.logs import open_locked, read_exit_code, rename_earlier_log
from tasks.launch.processes import members
from tasks.records.plan import RunPlan
from tasks.resolve.plans import Request, resolve
from tasks.store.directories import RunDirectory, config_text

from .conftest import wait_for

pytestmark = pytest.mark.flows

type MakePlan = Callable[..., RunPlan]

# appends to a file that survives the run, so that a test can count the starts
COUNT = "import sys, time; open(sys.argv[1], 'a').write('x'); print('up', flush=True); time.sleep(float(sys.argv[2]))"
FLOW = """\
import json, os, signal, sys
from pathlib import Path
from tasks.launch.local import process_group
from tasks.launch.job import launch_or_attach
from tasks.records.plan import RunPlan
from tasks.store.directories import RunDirectory
plan = RunPlan.model_validate_json(sys.argv[2])
handle = launch_or_attach(plan, RunDirectory(Path(plan.directory))).handle
print(json.dumps({"pid": handle.pid, "alive": process_group.is_alive(handle)}), flush=True)
if sys.argv[1] == "die":
    os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[1] == "stop":
    process_group.stop(handle)
    print(json.dumps({"alive": process_group.is_alive(handle)}))
"""


def end(handle: LocalHandle) -> None:
    wait_for(lambda: not process_group.is_alive(handle))


def another_flow(what: str, plan: RunPlan) -> list[dict[str, int]]:
    """Return the result of a new process, such as a new flow, for the same plan."""
    argv = [sys.executable, "-c", FLOW, what, plan.model_dump_json()]
    result = subprocess.run(argv, cwd=CONFIG_ROOT.parent, capture_output=True, text=True, timeout=300)
    assert result.returncode == (-signal.SIGKILL if what == "die" else 0), result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def is_guard(process: psutil.Process) -> bool:
    return process.name() == supervise.GUARD.decode()


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.fixture
def count(tmp_path: Path) -> Path:
    return tmp_path / "count"


@pytest.fixture
def plan(make_plan: MakePlan, count: Path, directory: RunDirectory) -> RunPlan:
    return make_plan(COUNT, str(count), "600")


def is_up(count: Path, times: int = 1) -> bool:
    return count.exists() and len(count.read_text()) == times


def test_a_launch_writes_plan_config_and_handle(plan: RunPlan, directory: RunDirectory, count: Path) -> None:
    handle = launch_or_attach(plan, directory).handle
    assert directory.read_plan() == plan
    assert read_handle(directory) == handle
    assert dict(read_yaml(directory.config)) == plan.config
    assert (handle.log, handle.job_name) == (str(directory.log), plan.run_name)
    process_group.stop(handle)


def test_a_second_call_attaches(plan: RunPlan, directory: RunDirectory, count: Path) -> None:
    handle = launch_or_attach(plan, directory).handle
    wait_for(lambda: is_up(count))
    assert launch_or_attach(plan, directory).handle == handle
    process_group.stop(handle)
    assert count.read_text() == "x"


def test_a_new_flow_attaches_and_may_stop_the_run(plan: RunPlan, directory: RunDirectory, count: Path) -> None:
    handle = launch_or_attach(plan, directory).handle
    wait_for(lambda: is_up(count))
    assert another_flow("attach", plan) == [{"pid": handle.pid, "alive": True}]
    assert another_flow("stop", plan) == [{"pid": handle.pid, "alive": True}, {"alive": False}]
    assert not process_group.is_alive(handle)
    assert directory.log.read_text().endswith("\nEXIT_CODE=143\n")
    assert count.read_text() == "x"


def test_kill_9_of_the_flow_leaves_the_run_alive_and_its_log_is_closed(
    make_plan: MakePlan, directory: RunDirectory, count: Path, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    wait = "while not os.path.exists(sys.argv[2]): time.sleep(0.05)"
    plan = make_plan(f"import os, sys, time; open(sys.argv[1], 'a').write('x')\n{wait}", str(count), str(go))
    (found,) = another_flow("die", plan)
    assert found["alive"]
    handle = read_handle(directory)
    assert handle is not None
    assert handle.pid == found["pid"]
    assert process_group.is_alive(handle)
    go.touch()
    wait_for(lambda: directory.log.read_text().endswith("\nEXIT_CODE=0\n"))
    end(handle)  # a moment later
    # the next flow finds it finished, and does not start it again
    (again,) = another_flow("attach", plan)
    assert again == {"pid": handle.pid, "alive": False}
    assert count.read_text() == "x"


def test_a_failed_run_starts_again_and_keeps_its_log(make_plan: MakePlan, directory: RunDirectory, count: Path) -> None:
    plan = make_plan("import sys; open(sys.argv[1], 'a').write('x'); sys.exit(3)", str(count))
    for times in (1, 2, 3):
        end(launch_or_attach(plan, directory).handle)
        assert len(count.read_text()) == times
    logs = [path.name for path in sorted(directory.path.glob("log*"))]
    assert logs == ["log.1.txt", "log.2.txt", "log.txt"]
    assert all((directory.path / name).read_text().endswith("EXIT_CODE=3\n") for name in logs)


def test_after_kill_9_of_the_supervisor_the_run_starts_again(
    plan: RunPlan, directory: RunDirectory, count: Path
) -> None:
    handle = launch_or_attach(plan, directory).handle
    wait_for(lambda: is_up(count))
    os.kill(handle.pid, signal.SIGKILL)
    end(handle)
    again = launch_or_attach(plan, directory).handle
    wait_for(lambda: is_up(count, 2))
    assert again.pid != handle.pid
    assert "EXIT_CODE" not in (directory.path / "log.1.txt").read_text()
    process_group.stop(again)


def test_processes_of_a_killed_supervisor_are_ended(
    make_plan: MakePlan, directory: RunDirectory, tmp_path: Path
) -> None:
    mark = tmp_path / "pid"
    child = f"import os, time; open({str(mark)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    plan = make_plan(f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])")
    first = launch_or_attach(plan, directory).handle
    wait_for(lambda: mark.exists() and mark.read_text())
    grandchild = int(mark.read_text())
    wait_for(lambda: any(is_guard(child) for child in psutil.Process(first.pid).children()))  # the command was quicker
    os.kill(first.pid, signal.SIGKILL)
    end(first)
    # ended at once, not only at the next launch
    wait_for(lambda: is_gone(grandchild))
    wait_for(lambda: not list(members(first)))  # nor does the guard stay
    second = launch_or_attach(plan, directory).handle
    assert process_group.is_alive(second)
    process_group.stop(second)


def test_two_flows_at_once_start_one_run(plan: RunPlan, directory: RunDirectory, count: Path) -> None:
    runs: list[LaunchedRun] = []
    threads = [threading.Thread(target=lambda: runs.append(launch_or_attach(plan, directory))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_for(lambda: is_up(count))
    assert len(runs) == 4
    assert len({run.handle.pid for run in runs}) == 1
    process_group.stop(runs[0].handle)
    assert count.read_text() == "x"


def test_a_log_that_another_process_writes_is_unchanged(plan: RunPlan, directory: RunDirectory, count: Path) -> None:
    directory.log.write_text("precious\n")
    descriptor = open_locked(directory.log)
    try:
        with pytest.raises(LaunchError, match="another process is still writing it"):
            launch_or_attach(plan, directory)
    finally:
        os.close(descriptor)
    assert directory.log.read_text() == "precious\n"
    assert directory.read_plan() is None
    assert not count.exists()


def test_the_other_arms_run_is_passed_on(make_plan: MakePlan, directory: RunDirectory, tmp_path: Path) -> None:
    plan = make_plan("import sys; print(sys.argv[1:])")
    handle = launch_or_attach(plan, directory, continue_from=tmp_path / "other run").handle
    end(handle)
    assert f"['--continue-from', '{tmp_path / 'other run'}']" in directory.log.read_text()


def test_no_file_contains_the_callers_environment(
    plan: RunPlan, directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_TOKEN", "hunter2-do-not-write-me-down")
    process_group.stop(launch_or_attach(plan, directory).handle)
    written = {path.name: path.read_bytes() for path in directory.path.rglob("*") if path.is_file()}
    assert {"plan.json", "config.yml", "handle.json", "log.txt"} <= set(written)
    assert [name for name, content in written.items() if b"hunter2" in content or b"A_TOKEN" in content] == []


# ---------------------------------------------------------------- the config that the trainer reads


def test_the_config_file_holds_the_resolved_values_with_their_origins(tmp_path: Path) -> None:
    for plan in resolve(Request(comparison="linen-vs-nnx", cases=("all",)), tmp_path):
        path = tmp_path / "config.yml"
        path.write_text(config_text(plan))
        assert dict(read_yaml(path)) == plan.config
        for line in path.read_text().splitlines()[1:]:
            key = line.partition(":")[0]
            assert line.endswith(f"  # {plan.origins[key]}")


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,9}", fullmatch=True), st.integers() | st.booleans() | st.text()))
def test_every_text_survives_the_config_file(config: dict[str, object]) -> None:
    text = config_text(RunPlan.model_construct(run_name="r", config=config, origins={}))
    with tempfile.NamedTemporaryFile("w", suffix=".yml", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        assert dict(read_yaml(Path(file.name))) == config


def test_floats_survive_the_config_file_bit_for_bit(tmp_path: Path) -> None:
    config = {f"k{n}": value for n, value in enumerate((1e-8, 3e-05, 0.1, 1e300, 5e-324, -0.0, 1.0))}
    path = tmp_path / "config.yml"
    path.write_text(config_text(RunPlan.model_construct(run_name="r", config=config, origins={})))
    assert [repr(value) for value in read_yaml(path).values()] == [repr(value) for value in config.values()]


# ---------------------------------------------------------------- small parts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\nXPK End: x\nEXIT_CODE=0\n", 0),
        ("a\nEXIT_CODE=1\n", 1),
        ("a\nEXIT_CODE=10\n", 10),
        ("EXIT_CODE=143\n", 143),
        ("a\nEXIT_CODE=0", None),  # cut off
        ("a says EXIT_CODE=0\n", None),
        ("a\nEXIT_CODE=0\nmore\n", None),
        ("", None),
        (None, None),
    ],
)
def test_the_exit_code_that_closes_a_log(text: str | None, expected: int | None, tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    if text is not None:
        path.write_text(text)
    assert read_exit_code(path) == expected


def test_an_empty_log_is_not_kept(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    rename_earlier_log(log)
    log.touch()
    rename_earlier_log(log)
    assert list(tmp_path.iterdir()) == []
