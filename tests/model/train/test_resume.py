"""An existing run folder: the run is continued, is already finished, or is refused with a reason."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import jax
import pytest
import sentencepiece

from configs.load import ConfigError, load_train_config
from configs.schema import TrainConfig
from model.train.loop import train
from model.train.stop import EXIT_SIGTERM, StopSignal
from tests.wording.sentences import Wording

pytestmark = pytest.mark.flows

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
        ({"steps": 3}, r"steps=3: .*run has already trained 6 steps"),
        (
            {"base_mlp_dim": 64},
            r"run_name: .* contains a different run: .*wi_0/kernel is float32\[16, 2, 64\] here.*"
            r"; that run was started with base_mlp_dim: 32 \(choose another run_name\)",
        ),
        ({"pure_nnx": True}, r"absent there; that run was started with pure_nnx: false \(choose another run_name\)"),
        (
            {"quantization": "int8"},
            r'quantization is int8 here and empty there; that run was started with quantization: ""',
        ),
        ({"dropout_rate": 0.1, "init_weights_seed": 2}, "init_weights_seed is 2 here .*, dropout_rate is 0.1 here"),
    ],
)
def test_a_folder_of_another_run_is_refused(
    changes: dict[str, object], message: str, folder: Path, mini_config: MiniConfig
) -> None:
    with pytest.raises(ConfigError, match=message):
        train(mini_config(base_output_directory=folder, **changes), StopSignal())


def test_a_refused_folder_is_unchanged_and_nothing_is_compiled(folder: Path, mini_config: MiniConfig) -> None:
    def files() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}

    def note(event: str, seconds: float, **_: object) -> None:
        events.append(event)

    events: list[str] = []
    (folder / "run" / "checkpoints" / "9.orbax-checkpoint-tmp").mkdir()  # a save that was interrupted by a kill
    before = files()
    jax.monitoring.register_event_duration_secs_listener(note)
    try:
        for changes in ({"base_mlp_dim": 64}, {"data_shuffle_seed": 1}):
            with pytest.raises(ConfigError):
                train(mini_config(base_output_directory=folder, steps=8, **changes), StopSignal())
        assert not [event for event in events if "backend_compile" in event]
        jax.jit(lambda x: x * 3.5)(1.0)
        assert [event for event in events if "backend_compile" in event]
    finally:
        jax.monitoring.unregister_event_duration_listener(note)
    assert files() == before


def test_sigterm_before_the_first_step_saves_nothing_and_imposes_no_config(
    tmp_path: Path, mini_config: MiniConfig
) -> None:
    """A run was stopped before its first step, and starts again with another seed."""
    place = {"base_output_directory": tmp_path}
    assert train(mini_config(**place), StopSignal(arrived=True)) == EXIT_SIGTERM
    assert list((tmp_path / "run" / "checkpoints").iterdir()) == []
    assert (tmp_path / "run" / "metrics.jsonl").read_text("utf-8") == ""
    assert train(mini_config(**place, data_shuffle_seed=1, steps=3), StopSignal()) == 0
    assert load_train_config(tmp_path / "run" / "config.yml", []).data_shuffle_seed == 1
    with pytest.raises(ConfigError, match="data_shuffle_seed is 0 here and 1 there"):
        train(mini_config(**place, steps=4), StopSignal())


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory, mini_config: MiniConfig) -> Path:
    """A folder with a run of two steps that read a.txt, and with other files that it could have read."""
    folder = tmp_path_factory.mktemp("texts")
    (folder / "a.txt").write_text("one text\nanother\na third, which is longer than a sequence of sixteen tokens\n")
    (folder / "other.txt").write_text("one text\nanother\na third, which is longer than a sequence of sixteen token!\n")
    for name in ("a", "b"):
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter([f"one {name} text", "another", "the last of them"] * 20),
            model_prefix=str(folder / name), vocab_size=40, minloglevel=2, hard_vocab_limit=False,
        )  # fmt: skip
    assert train(text_config(mini_config, folder, steps=2), StopSignal()) == 0
    return folder


def text_config(mini_config: MiniConfig, folder: Path, **changes: object) -> TrainConfig:
    """The config of that run with changes; {} stands for the folder."""
    words = {"grain_train_files": "{}/a.txt", "tokenizer_path": "{}/a.model", "eval_interval": -1, "vocab_size": 264}
    named = {key: str(value).format(folder) for key, value in (words | changes).items()}
    return mini_config("08_packing", base_output_directory=folder, **named)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"grain_train_files": "{}/other.txt"},
            r"grain_train_files is 76 bytes in 1 file \(CRC \w+\) here and 76 bytes in 1 file \(CRC \w+\) there; "
            r'that run was started with steps: 2, grain_train_files: ".*/a.txt"',
        ),
        ({"grain_train_files": "{}/*.txt"}, "grain_train_files is 152 bytes in 2 files .* and 76 bytes in 1 file "),
        ({"tokenizer_path": "{}/b.model"}, r"tokenizer_path is a model \(CRC \w+\) here and a model \(CRC \w+\) there"),
        ({"tokenizer_path": ""}, r"tokenizer_path is single bytes here and a model .* there"),
        ({"data_shuffle_seed": 7}, "data_shuffle_seed is 7 here and 0 there"),
        ({"max_target_length": 8}, "max_target_length is 8 here and 16 there"),
        ({"per_device_batch_size": 4}, "per_device_batch_size is 32 sequences in each of 1 here and 16 sequences in"),
        ({"dataset_type": "synthetic"}, "dataset_type is synthetic here and grain there"),
    ],
)
def test_different_texts_are_refused_with_the_keys(
    changes: dict[str, object], said: str, texts: Path, mini_config: MiniConfig
) -> None:
    with pytest.raises(ConfigError, match=f"^run_name: .*: {said}") as refused:
        train(text_config(mini_config, texts, **changes, steps=4), StopSignal())
    assert str(refused.value).endswith("(choose another run_name)")


@pytest.mark.long
def test_the_same_texts_in_another_folder_are_accepted(
    texts: Path, mini_config: MiniConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With all allowed changes: steps, learning rate, intervals, numerics, mesh."""
    for name in ("run", "a.txt", "a.model"):
        (shutil.copytree if name == "run" else shutil.copy)(texts / name, tmp_path / name)
    allowed = {
        "steps": 4, "learning_rate": 0.02, "checkpoint_period": 1, "dtype": "float32", "remat_policy": "none",
        "ici_fsdp_parallelism": 4, "ici_tensor_parallelism": 2, "grain_eval_files": "{}/a.txt", "eval_interval": 2,
    }  # fmt: skip
    with caplog.at_level("INFO", logger="absl"):
        assert train(text_config(mini_config, tmp_path, **allowed), StopSignal()) == 0
    assert "restoring from this run's directory step 1" in caplog.text


def test_a_folder_that_cannot_be_created_names_the_key(
    tmp_path: Path, mini_config: MiniConfig, wording: Wording
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"base_output_directory: ") as error:
        train(mini_config(base_output_directory=tmp_path / "file"), StopSignal())
    wording("errors", error.value)


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
def test_impossible_paths_and_devices_are_refused(
    changes: dict[str, str], message: str, mini_config: MiniConfig
) -> None:
    with pytest.raises(ConfigError, match=message):
        train(mini_config(**changes), StopSignal())


@pytest.mark.long
def test_a_relative_folder_is_resolved_at_the_trainers_start(
    tmp_path: Path, mini_config: MiniConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert train(mini_config(base_output_directory="runs", async_checkpointing=False), StopSignal()) == 0
    assert (tmp_path / "runs" / "run" / "checkpoints" / "5" / "_CHECKPOINT_METADATA").exists()


def test_without_checkpoints_their_folder_is_not_created(tmp_path: Path, mini_config: MiniConfig) -> None:
    config = mini_config(base_output_directory=tmp_path, enable_checkpointing=False)
    assert train(config, StopSignal()) == 0
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["config.yml", "metrics.jsonl", "program.json"]
