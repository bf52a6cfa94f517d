"""A backend is one package and its line in BACKENDS: the rest of the project does not contain its name."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from configs.backends import BACKENDS
from configs.comparison import Target, load_target
from configs.errors import ConfigError
from configs.read import CONFIG_ROOT
from tasks.ingest.log_causes import find_platform_cause
from tasks.launch import job, known_backends
from tasks.launch.backend import CAUSE_LINE, LaunchError
from tasks.launch.job import find_obstacles
from tasks.launch.known_backends import read_handle
from tasks.launch.logs import LogLine, watch
from tasks.records.log_reading import RunEnded
from tasks.records.plan import RunPlan
from tasks.store.atomic import StoreError
from tasks.store.directories import RunDirectory
from tasks.store.store import Store
from tests.standins.batch.handle import BatchHandle
from tests.standins.batch.settings import Batch
from tests.wording.sentences import Wording

pytestmark = pytest.mark.flows

TARGET = """\
# A partition.
backend: batch
devices: 1
model: tiny
time_limit_s: 60
batch:
  partition: ${PARTITION:-gpu}
"""


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Target:
    monkeypatch.setitem(BACKENDS, "batch", "tests.standins.batch.settings")  # its registration
    monkeypatch.setitem(known_backends.BACKENDS, "batch", "tests.standins.batch")
    tree = shutil.copytree(CONFIG_ROOT, tmp_path / "configs", ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    (tree / "targets" / "slurm.yml").write_text(TARGET)
    return load_target("slurm", root=tree)


@pytest.fixture
def plan(target: Target, make_plan: Callable[..., RunPlan]) -> RunPlan:
    return make_plan("print('trained')", backend=target.backend, launch=target.launch_settings({"PARTITION": "tpu"}))


def test_settings_come_from_the_section_with_its_name(target: Target) -> None:
    assert target.launch_settings({}) == Batch(partition="gpu")
    assert (target.trains_here, target.hires_chips) == (False, False)
    with pytest.raises(ConfigError, match=r"configs/targets/slurm.yml: partition: .*got 'a b'"):
        target.launch_settings({"PARTITION": "a b"})


def test_its_checks_are_run(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    (obstacle,) = find_obstacles(target, {})
    assert obstacle.startswith("partition gpu ")
    monkeypatch.setenv("BATCH_PARTITIONS", "gpu")
    assert list(find_obstacles(target, {})) == []


def test_a_job_is_launched_followed_and_found_again(plan: RunPlan, directory: RunDirectory) -> None:
    run = job.launch_or_attach(plan, directory)
    assert isinstance(run.handle, BatchHandle)
    events = list(watch(job.follow(run)))
    assert [event.text for event in events if isinstance(event, LogLine)] == ["partition tpu", "trained", "EXIT_CODE=0"]
    assert [event.exit_code for event in events if isinstance(event, RunEnded)] == [0]
    assert job.has_ended(run.handle)
    # from the files alone, like another flow
    assert directory.read_plan() == plan
    assert read_handle(directory) == run.handle
    assert job.launch_or_attach(plan, directory).handle == run.handle


def test_a_target_is_checked_before_anything_is_spent(
    plan: RunPlan, directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(directory.path.parent.parent)
    with pytest.raises(LaunchError, match=r"partition tpu .*`sinfo`"):
        job.check_target([plan], store)
    monkeypatch.setenv("BATCH_PARTITIONS", "tpu")
    job.check_target([plan], store)
    monkeypatch.delenv("BATCH_PARTITIONS")
    list(job.follow(job.launch_or_attach(plan, store.run(plan.run_name))))
    job.check_target([plan], store)  # its job exists already


def test_a_manifest_is_the_backends(
    plan: RunPlan, make_plan: Callable[..., RunPlan], directory: RunDirectory, wording: Wording
) -> None:
    assert job.write_manifest(plan, directory) == "# partition tpu\n"
    with pytest.raises(ConfigError, match=r"backend local .*batch") as error:
        job.write_manifest(make_plan("", backend="local"), directory)
    wording("errors", error.value)


def test_causes_of_death_have_a_class(plan: RunPlan, tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text(CAUSE_LINE.format(type="NodeFail", message="the node is down") + "\n")
    found = find_platform_cause(log, (0, 0))
    assert found is not None
    assert (found.type, found.kind) == ("NodeFail", "preempted")


def test_the_handle_of_an_unknown_backend_is_a_damaged_file(directory: RunDirectory, wording: Wording) -> None:
    directory.handle.write_text('{"backend": "pbs", "job_name": "j", "log": "l"}')
    with pytest.raises(StoreError, match=r"'pbs'.*local, jobset, slurm, xpk") as error:
        read_handle(directory)
    wording("errors", error.value)


def test_other_code_does_not_name_a_backends_package() -> None:
    """xpk's name occurs in its package and settings, in the two lists, and as the frame of logs ("XPK Start:")."""
    root = CONFIG_ROOT.parent
    own = (root / "tasks" / "launch" / "xpk", root / "configs" / "backends" / "xpk.py")
    named = {
        f"{path.relative_to(root)}: {line.strip()}"
        for folder in ("configs", "flows", "model", "tasks")
        for path in (root / folder).rglob("*.py")
        if not any(path.is_relative_to(place) for place in own)
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"\bxpk\b|[Xx]pk[A-Z]", line)
    }
    assert {line.partition(":")[0] for line in named} == {
        "configs/backends/__init__.py", "tasks/launch/known_backends.py"
    }  # fmt: skip
    assert len(named) == 2


def test_reading_the_settings_of_every_backend_loads_no_library() -> None:
    """Every command reads targets, so settings must not import slow libraries."""
    code = (
        "import sys; from configs.backends import BACKENDS, settings_model; [settings_model(b) for b in BACKENDS]; "
        "print({'kubernetes', 'polars', 'psutil'} & sys.modules.keys())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=CONFIG_ROOT.parent, capture_output=True, text=True, check=False
    )
    assert done.stdout == "set()\n", done.stderr
