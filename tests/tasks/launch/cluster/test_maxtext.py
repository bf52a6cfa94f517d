"""A pod that runs MaxText: its command, and its output in a folder that pods share."""

import shlex
import shutil
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from configs.comparison import load_comparison, load_target
from configs.schema import TrainConfig
from tasks.ingest.run_record import build_record
from tasks.launch import job
from tasks.launch.cluster.naming import as_pods_see
from tasks.launch.logs import watch
from tasks.launch.xpk.workload import shell_line
from tasks.records.plan import RunPlan
from tasks.resolve.arm_config import resolve_config
from tasks.resolve.trainers.maxtext import find_maxtext, plan_maxtext
from tasks.resolve.trainers.trainer import CONFIG_IN_POD
from tasks.scrape.read_log import scrape_run
from tasks.store.directories import RunDirectory, config_text
from tasks.store.files import LocalFiles
from tasks.store.mirror import Mirror
from tasks.store.store import open_store

pytestmark = pytest.mark.flows

STANDIN = Path(__file__).parent.parent.parent.parent / "standins" / "maxtext" / "train.py"


@pytest.fixture(autouse=True)
def _no_descriptor_stays_open() -> None:
    """Disabled here: the client keeps its connections to the bucket."""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The folder of sources of an image with MaxText: the files that are read."""
    package = tmp_path / "image" / "maxtext"
    for name in ("__init__.py", "trainers/__init__.py", "trainers/pre_train/__init__.py", "layers/nnx_decoders.py"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).touch()
    shutil.copy(STANDIN, package / "trainers/pre_train/train.py")
    (package / "configs").mkdir()
    keys = TrainConfig.model_fields.keys() - {"pure_nnx"}
    (package / "configs/base.yml").write_text("".join(f"{key}: 0\n" for key in sorted(keys)))
    return package.parent


@pytest.fixture
def make_maxtext_plan(make_plan: Callable[..., RunPlan], source: Path) -> Callable[..., RunPlan]:
    """make_maxtext_plan(folder, shared_out=…): the plan of a run in a pod, three steps long."""

    def make(folder: Path, *, shared_out: bool) -> RunPlan:
        plan = make_plan("", shared_out=shared_out)
        resolved = resolve_config(
            load_comparison("maxtext-releases"), load_target("cpu"), case="01_base", arm="newer", overrides=["steps=3"]
        )
        argv = plan_maxtext(resolved.config, find_maxtext(Path(sys.executable), source), folder, in_pod=True).argv
        changes = {"trainer": "maxtext", "argv": argv, "environment": {"PYTHONPATH": str(source)}}
        return plan.replace(**changes)

    return make


def in_float32(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


def test_the_pod_becomes_maxtext(make_maxtext_plan: Callable[..., RunPlan]) -> None:
    plan = make_maxtext_plan(Path("/shared/runs/a run"), shared_out=True)
    before, _, command = shell_line(plan, config_text(plan), ()).rpartition(" && exec ")
    assert CONFIG_IN_POD in before  # for people who look into the pod
    words = shlex.split(command)
    start = ["python", "-m", "maxtext.trainers.pre_train.train", "src/maxtext/configs/base.yml"]
    assert words[words.index("python") :][:4] == start
    assert "model.train" not in command
    assert {"steps=3", "run_name=a run", "base_output_directory=/shared/runs"} <= set(words)
    assert 'metrics_file=""' in words  # each process of a slice would append to the same file


def test_output_paths_are_addresses_in_the_bucket(make_maxtext_plan: Callable[..., RunPlan], tmp_path: Path) -> None:
    directory = RunDirectory(
        tmp_path / "copy" / "runs" / "r", Mirror(tmp_path / "copy", LocalFiles(tmp_path / "bucket"))
    )
    plan, _ = as_pods_see(make_maxtext_plan(directory.path, shared_out=False), directory, ())
    assert f"base_output_directory={tmp_path / 'bucket' / 'runs'}" in plan.argv
    assert 'metrics_file=""' in plan.argv
    assert not [word for word in plan.argv if str(tmp_path / "copy") in word]


def test_a_run_of_maxtext_in_pods_has_its_record(
    standin: Any, make_maxtext_plan: Callable[..., RunPlan], directory: RunDirectory
) -> None:
    plan = make_maxtext_plan(directory.path, shared_out=True)
    launched = job.launch_or_attach(plan, directory)
    list(watch(job.follow(launched, poll_s=0.05)))
    record = build_record(plan, directory, scrape_run(directory.log), [])
    assert record.reading.exit_code == 0
    assert record.reading.steps["step"].to_list() == [0, 1, 2]
    assert record.label == "linen · MaxText of an image"
    assert record.metrics is not None
    assert not directory.metrics.exists()  # of two pods
    assert record.metrics["loss"].to_list() == [in_float32(9.0 - step / 7) for step in range(3)]
    job.stop(launched.handle)


def test_output_in_a_bucket_is_copied_back(
    standin: Any,
    make_maxtext_plan: Callable[..., RunPlan],
    gcs_url: str,
    gcs_environment: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("tensorboardX", reason="MaxText writes its files with tensorboardX: uv sync")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    directory = open_store(gcs_url).run("01_base-newer-r0-0123456789").create()
    plan = make_maxtext_plan(directory.path, shared_out=False)
    place = {"run_name": directory.run_name, "directory": str(directory.path)}
    plan = plan.replace(**(place | {"environment": plan.environment | gcs_environment}))
    launched = job.launch_or_attach(plan, directory)
    list(watch(job.follow(launched, poll_s=0.05)))
    record = build_record(plan, directory, scrape_run(directory.log), [])
    assert record.reading.exit_code == 0
    assert not directory.metrics.exists()
    assert record.metrics is not None
    assert record.metrics["step"].to_list() == [0, 1, 2]
    assert record.metrics["loss"].to_list() == [in_float32(9.0 - step / 7) for step in range(3)]
    assert record.metrics["total_weights"].to_list() == [8, 8, 8]
    one_more = pl.concat([record.reading.steps, record.reading.steps[-1:].with_columns(step=pl.lit(3, pl.Int64))])
    longer = record.reading.replace(steps=one_more)  # a step that is missing in its files
    assert build_record(plan, directory, longer, []).metrics is None
    job.stop(launched.handle)
