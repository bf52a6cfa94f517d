"""A confined trainer can write only in its own folder: real processes, real namespaces."""

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tasks.launch.local import confine, process_group
from tasks.launch.owners import find_finished, turn_of
from tasks.records.log_reading import RunReading
from tasks.records.plan import RunPlan
from tasks.records.run import RunRecord
from tasks.store.directories import RunDirectory
from tasks.store.store import Store, open_store

pytestmark = pytest.mark.flows

type MakePlan = Callable[..., RunPlan]


@pytest.fixture(scope="module")
def offered() -> bool:
    """Whether the system supports mount namespaces; tested in another process, since this one has threads."""
    code = "from tasks.launch.local import confine; print(confine.can_confine([]))"
    argv, root = [sys.executable, "-c", code], Path(confine.__file__).parents[3]
    return subprocess.run(argv, cwd=root, check=True, capture_output=True, text=True).stdout == "True\n"


@pytest.fixture
def _namespaces(offered: bool) -> None:
    if not offered:
        pytest.skip("this system offers no namespace of mounts")


needs_namespaces = pytest.mark.usefixtures("_namespaces")
# a branch's attacks: the other arm's record, a new file beside it, the seals, remounting the disk writable
ATTACK = """
import os, pathlib, subprocess, sys
other, state, own = map(pathlib.Path, sys.argv[1:])
for what, act in {
    "rewrite": lambda: (other / "record.json").write_text("{}"),
    "delete": lambda: (other / "record.json").unlink(),
    "rename": lambda: other.rename(other.with_name("gone")),
    "state": lambda: (state / "x").write_text(""),
    "remount": lambda: subprocess.run(["mount", "-o", "remount,rw,bind", "/"], check=True, stderr=subprocess.DEVNULL),
}.items():
    try:
        act()
        print(what, "worked")
    except (OSError, subprocess.CalledProcessError):
        print(what, "refused")
(own / "mine").write_text("x")
pathlib.Path("/dev/null").write_text("x")
print("cwd", os.getcwd())
"""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("MAXVIEW_STATE", str(tmp_path / "state"))
    (tmp_path / "state").mkdir()
    return open_store(tmp_path / "out")


def finish(directory: RunDirectory, *, code: int = 0) -> None:
    directory.create().log.write_text(f"XPK Start: …\nEXIT_CODE={code}\n")
    directory.metrics.write_text('{"step": 0, "loss": 2.5}\n')
    reading = RunReading(name=directory.run_name, format="maxview", exit_code=code)
    directory.write_record(
        RunRecord(plan=None, arm="a", label="a", commit=None, log=str(directory.log), reading=reading)
    )


def log_of(plan: RunPlan, directory: RunDirectory) -> str:
    handle = process_group.launch(plan, directory.create().log)
    deadline = time.monotonic() + 120
    while process_group.is_alive(handle):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return directory.log.read_text()


@needs_namespaces
def test_an_arm_cannot_change_the_other_arm(store: Store, make_plan: MakePlan, tmp_path: Path) -> None:
    baseline, candidate = store.run("baseline"), store.run("candidate").create()
    finish(baseline)
    words = (str(baseline.path), str(tmp_path / "state"), str(candidate.path))
    log = log_of(make_plan(ATTACK, *words, directory=str(candidate.path)), candidate)
    refused = [line.split()[0] for line in log.splitlines() if line.endswith("refused")]
    assert refused == ["rewrite", "delete", "rename", "state", "remount"], log
    assert (candidate.path / "mine").read_text() == "x"
    assert log.endswith("EXIT_CODE=0\n")
    assert find_finished(baseline) is not None


@needs_namespaces
def test_a_compile_may_write_to_the_cache_of_compiled_programs(store: Store, make_plan: MakePlan) -> None:
    run, programs = store.run("r").create(), store.path / "programs"
    code = "import os, pathlib; pathlib.Path(os.environ['MAXVIEW_PROGRAMS'], 'one').write_text('x')"
    environment = {"MAXVIEW_PROGRAMS": str(programs)}
    log = log_of(make_plan(code, directory=str(run.path), environment=environment), run)
    assert (programs / "one").exists(), log


# detours for root: the supervisor's mounts, its memory, a file by its handle
DETOURS = """
import ctypes, os, sys
record, = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)

def by_handle():
    handle, mount = (ctypes.c_uint * 40)(128), ctypes.c_int()
    if libc.name_to_handle_at(-100, record.encode(), handle, ctypes.byref(mount), 0):
        raise OSError(ctypes.get_errno(), "no handle")
    descriptor = libc.open_by_handle_at(os.open("/tmp", os.O_RDONLY), handle, os.O_WRONLY | os.O_TRUNC)
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "not opened")

for what, act in {
    "root": lambda: open(f"/proc/{os.getppid()}/root{record}", "w"),
    "memory": lambda: open(f"/proc/{os.getppid()}/mem", "r+b"),
    "handle": by_handle,
}.items():
    try:
        act()
        print(what, "worked")
    except OSError:
        print(what, "refused")
"""


@needs_namespaces
def test_detours_do_not_lead_to_the_other_arm(store: Store, make_plan: MakePlan) -> None:
    baseline, candidate = store.run("baseline"), store.run("candidate").create()
    finish(baseline)
    log = log_of(make_plan(DETOURS, str(baseline.record), directory=str(candidate.path)), candidate)
    assert [line for line in log.splitlines() if line.endswith(("worked", "refused"))] == [
        "root refused", "memory refused", "handle refused",
    ]  # fmt: skip
    assert find_finished(baseline) is not None


@needs_namespaces
def test_packages_installed_from_a_cache_cannot_be_changed_there(
    store: Store, make_plan: MakePlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Installed packages are hard links to the files in uv's cache; environments are in maxview's."""
    caches = tmp_path / "home" / ".cache"
    files = [
        caches / "uv" / "archive-v0" / "jax.py",
        caches / "maxview" / "environments" / "python",
        caches / "jax" / "a",
    ]
    for file in files:
        file.parent.mkdir(parents=True)
        file.write_text("honest")
    installed = tmp_path / "installed.py"
    installed.hardlink_to(files[0])
    monkeypatch.setenv("MAXVIEW_CACHE", str(caches / "maxview"))
    code = """
import sys
for path in sys.argv[1:]:
    try:
        open(path, "w").write("changed")
    except OSError as error:
        print(error)
"""
    run = store.run("r").create()
    environment = {"JAX_PLATFORMS": "cpu", "HOME": str(tmp_path / "home")}
    log_of(make_plan(code, *map(str, files), directory=str(run.path), environment=environment), run)
    assert installed.read_text() == "honest"
    assert [file.read_text() for file in files] == ["honest", "honest", "changed"]


@needs_namespaces
def test_environments_and_this_program_are_read_only_in_a_temporary_folder_too(
    store: Store, make_plan: MakePlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clone in /tmp: with a `.pth` in its environment a branch would change every later run."""
    program, arms, work = tmp_path / "clone", tmp_path / "env", tmp_path / "clone" / "mine"
    (arms / "bin").mkdir(parents=True)
    (arms / "bin" / "python").symlink_to(sys.executable)
    (arms / "pyvenv.cfg").write_text(f"home = {Path(sys.executable).parent}\n")
    (program / ".venv" / "bin").mkdir(parents=True)
    work.mkdir()
    monkeypatch.setattr(process_group, "CONFIG_ROOT", program / "configs")
    monkeypatch.setattr(sys, "prefix", str(program / ".venv"))
    code = """
import pathlib, sys
for folder in sys.argv[1:]:
    try:
        pathlib.Path(folder, "evil.pth").write_text("import os")
        print("worked")
    except OSError:
        print("refused")
"""
    run = store.run("r").create()
    folders = (arms, program / ".venv" / "bin", program, work)
    plan = make_plan(code, *map(str, folders), directory=str(run.path), start_folder=str(work))
    argv = ("env", "A=1", str(arms / "bin" / "python"), *plan.argv[1:])  # as a target's `wrap` does
    log = log_of(plan.replace(argv=argv), run)
    said = [line for line in log.splitlines() if line in ("worked", "refused")]
    assert said == ["refused", "refused", "refused", "worked"], log


@needs_namespaces
def test_signals_and_exit_codes_are_unchanged(store: Store, make_plan: MakePlan) -> None:
    """SIGTERM reaches the trainer itself, which then saves."""
    run = store.run("r").create()
    code = (
        "import signal, sys, time; signal.signal(15, lambda *_: (print('saved'), sys.exit(7))); "
        "print('up', flush=True); time.sleep(600)"
    )
    handle = process_group.launch(make_plan(code, directory=str(run.path)), run.log)
    deadline = time.monotonic() + 120
    while "up" not in run.log.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process_group.stop(handle)
    assert "saved" in run.log.read_text()
    assert run.log.read_text().endswith("EXIT_CODE=7\n")


def test_without_a_namespace_the_command_starts_unconfined(tmp_path: Path) -> None:
    """Simulates a container whose filter refuses unshare(2)."""
    program = f"""
import runpy, sys
sys.argv = ["confine.py", "--", {sys.executable!r}, "-c", "print('started')"]
module = runpy.run_path({confine.__file__!r})
def refuse(*_): raise OSError(1, "Operation not permitted")
module["main"].__globals__["enter_namespace"] = refuse
module["main"](sys.argv[1:])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "started\n"


@pytest.mark.parametrize("there", [True, False])
def test_on_a_machine_with_devices_only_cpu_trainers_are_confined(
    offered: bool, there: bool, store: Store, make_plan: MakePlan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(process_group, "has_devices", lambda: there)
    beside = tmp_path / "out" / "beside"
    code = f"open({str(beside)!r}, 'w')"
    run = store.run("r").create()
    log = log_of(make_plan(code, directory=str(run.path), environment={}), run)
    assert beside.exists() == (there or not offered), log
    beside.unlink(missing_ok=True)
    log_of(make_plan(code, directory=str(run.path), environment={"JAX_PLATFORMS": "cpu"}), run)
    assert beside.exists() == (not offered)


@pytest.mark.parametrize("name", ["record.json", "log.txt", "metrics.jsonl"])
def test_a_changed_finished_run_is_repeated(name: str, store: Store, make_plan: MakePlan) -> None:
    directory = store.run("r")
    finish(directory)
    assert find_finished(directory) is not None
    path = directory.path / name
    path.write_text(path.read_text().replace("0", "1", 1))
    assert find_finished(directory) is None
    reported: list[str] = []
    with turn_of(
        make_plan("pass"), directory, ("f",), life_of=lambda _: "unknown", wait=pytest.fail, tell=reported.append
    ) as finished:
        assert finished is None
        assert not directory.log.exists()  # none of its files remain for the next run
    assert name in reported[0]
    assert (directory.path / "changed-1" / name).exists()


def turn(directory: RunDirectory, plan: RunPlan, reported: list[str]) -> AbstractContextManager[RunRecord | None]:
    return turn_of(plan, directory, ("f",), life_of=lambda _: "unknown", wait=pytest.fail, tell=reported.append)


def test_a_run_whose_files_were_deleted_is_a_new_one(store: Store, make_plan: MakePlan) -> None:
    directory, reported = store.run("r"), list[str]()
    finish(directory)
    shutil.rmtree(store.path)  # as users clear a store
    with turn(directory, make_plan("pass"), reported) as finished:
        assert finished is None
    assert reported == []


def test_a_repeated_run_that_was_killed_again_counts_as_unchanged(store: Store, make_plan: MakePlan) -> None:
    directory, reported = store.run("r"), list[str]()
    finish(directory, code=1)
    with turn(directory, make_plan("pass"), reported) as finished:
        assert finished is None
        directory.log.write_text("XPK Start: …\n")  # the flow is killed here, so that no new record is written
    with turn(directory, make_plan("pass"), reported) as finished:
        assert finished is None
    assert reported == []


def test_an_output_from_another_machine_has_no_seal_and_is_accepted(store: Store, tmp_path: Path) -> None:
    finish(store.run("r"))
    moved = shutil.copytree(tmp_path / "out", tmp_path / "moved")
    assert find_finished(open_store(moved).run("r")) is not None


def test_an_unwritable_state_folder_has_no_seals(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MAXVIEW_STATE", str(tmp_path / "file" / "below"))
    finish(store.run("r"))
    assert find_finished(store.run("r")) is not None
