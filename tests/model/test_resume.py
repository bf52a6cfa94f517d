"""What a run folder that is already there means: go on, be done, or be refused with a reason."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from configs.load import ConfigError
from configs.schema import TrainConfig
from model.stop import EXIT_SIGTERM, StopSignal
from model.train import train

type MiniConfig = Callable[..., TrainConfig]


@pytest.fixture(scope="module")
def folder(finished_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    shutil.copytree(finished_run, folder / "run")
    return folder


def test_a_finished_run_is_not_repeated(folder: Path, mini_config: MiniConfig) -> None:
    before = json.loads((folder / "run" / "program.json").read_text("utf-8"))
    lines = (folder / "run" / "metrics.jsonl").read_text("utf-8")
    assert train(mini_config(base_output_directory=folder), StopSignal()) == 0
    after = json.loads((folder / "run" / "program.json").read_text("utf-8"))
    assert after == before | {"metrics_file": after["metrics_file"]}  # the folder is a copy, in another place
    assert (folder / "run" / "metrics.jsonl").read_text("utf-8") == lines


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 3}, r"steps=3: .*run has already done 6"),
        (
            {"base_mlp_dim": 64},
            r"run_name: .* holds another run: .*wi_0/kernel is float32\[16, 2, 64\] here.*"
            r"; it began with base_mlp_dim: 32 \(choose another run_name\)",
        ),
        ({"pure_nnx": True}, r"absent there; it began with pure_nnx: false \(choose another run_name\)"),
    ],
)
def test_a_folder_of_another_run_is_refused(
    changes: dict[str, int], message: str, folder: Path, mini_config: MiniConfig
) -> None:
    with pytest.raises(ConfigError, match=message):
        train(mini_config(base_output_directory=folder, **changes), StopSignal())


def test_a_run_that_read_texts_does_not_go_on_without(
    finished_run: Path, mini_config: MiniConfig, tmp_path: Path
) -> None:
    shutil.copytree(finished_run, tmp_path / "run")
    (tmp_path / "run" / "checkpoints" / "5" / "iter").mkdir()
    with pytest.raises(ConfigError, match=r"another run: the place in its texts is absent here and kept there"):
        train(mini_config(base_output_directory=tmp_path), StopSignal())


def test_a_folder_that_cannot_be_made_names_the_key(tmp_path: Path, mini_config: MiniConfig) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"base_output_directory: .*cannot be made.*choose a folder"):
        train(mini_config(base_output_directory=tmp_path / "file"), StopSignal())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"base_output_directory": "x", "hardware": "tpu"},
            r"hardware=tpu, but the devices are cpu .*JAX_PLATFORMS=tpu",
        ),
        ({"base_output_directory": ""}, r"base_output_directory is empty"),
        ({"base_output_directory": "x", "run_name": ""}, r"run_name is empty"),
    ],
)
def test_places_and_devices_that_cannot_be_are_refused(
    changes: dict[str, str], message: str, mini_config: MiniConfig
) -> None:
    with pytest.raises(ConfigError, match=message):
        train(mini_config(**changes), StopSignal())


@pytest.mark.long
def test_a_relative_folder_is_taken_from_where_the_trainer_started(
    tmp_path: Path, mini_config: MiniConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert train(mini_config(base_output_directory="runs", async_checkpointing=False), StopSignal()) == 0
    assert (tmp_path / "runs" / "run" / "checkpoints" / "5" / "_CHECKPOINT_METADATA").exists()


def test_sigterm_before_the_first_step_saves_nothing(tmp_path: Path, mini_config: MiniConfig) -> None:
    assert train(mini_config(base_output_directory=tmp_path), StopSignal(arrived=True)) == EXIT_SIGTERM
    assert list((tmp_path / "run" / "checkpoints").iterdir()) == []
    assert (tmp_path / "run" / "metrics.jsonl").read_text("utf-8") == ""


def test_without_checkpoints_there_is_no_folder_for_them(tmp_path: Path, mini_config: MiniConfig) -> None:
    config = mini_config(base_output_directory=tmp_path, enable_checkpointing=False)
    assert train(config, StopSignal()) == 0
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["config.yml", "metrics.jsonl", "program.json"]
