"""The output folder: checked before a run, and read back from its files."""

import json
import os
from pathlib import Path

import pytest

from tasks.launch.known_backends import read_handle
from tasks.launch.local.handle import LocalHandle
from tasks.records.plan import RunPlan
from tasks.store.atomic import StoreError
from tasks.store.store import Store, check_writable, open_store


def plan(run_name: str = "linen-1", **changes: object) -> RunPlan:
    fields = {
        "comparison": "linen-vs-nnx",
        "case": "01_base",
        "arm": "linen",
        "repeat": 0,
        "trainer": "maxview",
        "target": "cpu",
        "backend": "local",
        "config": {"steps": 10, "learning_rate": 3e-5, "adam_b1": 0.1 + 0.2, "run_name": run_name, "pure_nnx": False},
        "origins": {"steps": "configs/base.yml:12"},
        "commit": None,
        "dirty": False,
        "versions": {"jax": "0.12.0"},
        "environment": {"JAX_PLATFORMS": "cpu"},
        "argv": ("python", "-m", "model.train", "a b;c"),
        "time_limit_s": 60,
        "run_name": run_name,
        "directory": "/out/runs/x",
        "identity": "0123abcd",
    }
    return RunPlan.model_validate({**fields, **changes})


def test_a_folder_is_created_and_can_be_opened_again(tmp_path):
    store = open_store(tmp_path / "new" / "out")
    assert store.path == tmp_path / "new" / "out"
    assert os.listdir(store.path) == [".gitignore"]  # a clone around the store does not see its files
    assert open_store(str(store.path)) == store


def test_a_relative_folder_does_not_move_with_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = open_store("out")
    monkeypatch.chdir("/")
    assert store.path == tmp_path / "out"


def test_a_folder_that_cannot_be_written_is_named_with_the_remedy(tmp_path):
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "sub", Path("/proc/maxview"), Path("/sys/kernel/maxview/x")):
        with pytest.raises(StoreError) as caught:
            open_store(out)
        assert str(out) in str(caught.value)
        assert "--out" in str(caught.value)
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("out", ["file", "file/sub", "/proc/maxview", "/sys/kernel/maxview/x", "n" * 300])
def test_an_impossible_output_folder_is_reported_without_being_created(tmp_path, out):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r" \(.*\); .*--out$"):
        check_writable(tmp_path / out)
    assert os.listdir(tmp_path) == ["file"]


def test_reading_an_output_folder_creates_nothing(tmp_path):
    assert check_writable(tmp_path / "new" / "out") == (str(tmp_path / "new" / "out"), tmp_path)
    assert os.listdir(tmp_path) == []
    assert check_writable(tmp_path) == (str(tmp_path), tmp_path)
    with pytest.raises(StoreError, match="not a local folder"):
        check_writable("s3://bucket/out")


def test_unused_new_folders_are_removed(tmp_path, monkeypatch):
    import tempfile

    def fail(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(tempfile, "TemporaryFile", fail)
    with pytest.raises(StoreError, match="Read-only file system"):
        open_store(tmp_path / "a" / "b")
    assert os.listdir(tmp_path) == []


def test_an_address_that_is_not_a_local_folder_is_refused():
    with pytest.raises(StoreError, match="not a local folder"):
        open_store("s3://bucket/out")
    with pytest.raises(StoreError, match="not a local folder or a gs:// address"):
        open_store("gs:/bucket/out")  # one slash is missing


def test_paths_are_the_documented_ones(tmp_path):
    run = Store(tmp_path).run("linen-1")
    names = {
        "plan.json": run.plan,
        "config.yml": run.config,
        "handle.json": run.handle,
        "log.txt": run.log,
        "metrics.jsonl": run.metrics,
        "program.json": run.program,
        "checkpoints": run.checkpoints,
        "manifests": run.manifests,
        "record.json": run.record,
    }
    assert {name: tmp_path / "runs" / "linen-1" / name for name in names} == names
    comparison = Store(tmp_path).comparison("linen-vs-nnx", "01_base", "20261121-1")
    folder = tmp_path / "comparisons" / "linen-vs-nnx" / "01_base" / "20261121-1"
    assert (comparison.comparison, comparison.page) == (folder / "comparison.json", folder / "index.html")
    assert comparison.file("chart.svg") == folder / "chart.svg"
    assert os.listdir(tmp_path) == []  # requesting paths creates nothing


def test_plan_handle_and_program_are_read_back(tmp_path):
    run = Store(tmp_path).run("linen-1").create()
    assert (run.read_plan(), read_handle(run), run.read_program(), run.read_record()) == (None, None, None, None)
    handle = LocalHandle(backend="local", job_name="j", pid=12, created=1795225511.280928, log=str(run.log))
    run.write_plan(plan())
    run.write_handle(handle)
    run.write_config(plan(config={"steps": 10}, origins={"steps": "×"}))
    run.program.write_text('{"program": "sha"}')
    assert run.read_plan() == plan()
    assert read_handle(run) == handle
    assert run.read_program() == {"program": "sha"}
    assert run.config.read_text().endswith("steps: 10  # ×\n")


def test_a_plan_that_json_cannot_represent_is_refused(tmp_path):
    with pytest.raises(StoreError, match=r"config\.adam_eps is not a finite number"):
        Store(tmp_path).run("x").write_plan(plan(config={"adam_eps": float("inf")}))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"pid": 1}', "\x00", '{"backend": "local", "unknown": 1}'])
def test_damaged_files_are_named(tmp_path, text):
    run = Store(tmp_path).run("x").create()
    readers = {run.plan: run.read_plan, run.handle: lambda: read_handle(run), run.record: run.read_record}
    for path, read in readers.items():
        path.write_text(text)
        with pytest.raises(StoreError) as caught:
            read()
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)


def test_invalid_utf8_bytes_and_a_folder_in_the_way_are_named(tmp_path):
    run = Store(tmp_path).run("x").create()
    run.plan.write_bytes(b"\xff\xfe\x00")
    run.record.mkdir()
    for path, read in ((run.plan, run.read_plan), (run.record, run.read_record)):
        with pytest.raises(StoreError, match=str(path)):
            read()


def test_runs_are_listed_by_their_folders(tmp_path):
    store = Store(tmp_path)
    assert list(store.runs()) == []
    for name in ("b", "a"):
        store.run(name).create().write_plan(plan(name))
    store.run("empty").create()
    (tmp_path / "runs" / "stray.txt").write_text("")
    assert [run.run_name for run in store.runs()] == ["a", "b"]
    assert [json.loads(run.plan.read_text())["run_name"] for run in store.runs()] == ["a", "b"]
    assert list(store.comparisons()) == []
