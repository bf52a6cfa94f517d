"""The log lines: the same patterns match MaxText's logs in the seeds and our logs."""

import re
from pathlib import Path

import jax
import numpy as np
import pytest
from jax.sharding import AbstractMesh

from configs.load import CONFIG_ROOT, load_train_config
from configs.schema import TrainConfig
from model.decoder.sharding import MESH_AXES
from model.train import report
from model.train.flops import step_flops

pytestmark = pytest.mark.flows


@pytest.fixture
def seed_config() -> TrainConfig:
    words = ["per_device_batch_size=1", "max_target_length=2048"]
    return load_train_config(CONFIG_ROOT / "models" / "seed-1b.yml", words)


@pytest.fixture
def seed_log(seeds: Path) -> str:
    return next(seeds.glob("000_*.txt")).read_text(encoding="utf-8")


class CompiledMemory:
    """The seeds' program, in bytes that round to their figures."""

    output_size_in_bytes = int(0.4 * 2**30)
    temp_size_in_bytes = int(1.1 * 2**30)
    argument_size_in_bytes = int(0.4 * 2**30)
    alias_size_in_bytes = int(0.4 * 2**30)
    host_temp_size_in_bytes = 0


def metrics_of(weights: int, loss: float) -> dict[str, int | np.float32]:
    """The metrics of a step without auxiliary losses."""
    return {"total_weights": weights, "loss": np.float32(loss), "lm_loss": np.float32(loss)}


def test_the_step_line_equals_the_seeds(
    seed_config: TrainConfig, seed_log: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Step 9 of the Linen run, from its loss and from the seconds that its throughput implies."""
    seconds = 2048 / 13852.158
    with caplog.at_level("INFO", logger="absl"):
        report.log_step(seed_config, step=9, seconds=seconds, metrics=metrics_of(65536, 8.17881))
    line = caplog.records[-1].getMessage()
    theirs = next(line for line in seed_log.splitlines() if "completed step: 9," in line).split("] ", 1)[1]
    words, words_there = re.split(r"[\d.]+", line), re.split(r"[\d.]+", theirs)
    assert words == words_there
    numbers, numbers_there = (re.findall(r"[\d.]+", text) for text in (line, theirs))
    assert numbers[:6] == numbers_there[:6]
    # the perplexity shows more digits of the loss than the loss itself
    np.testing.assert_allclose(float(numbers[-1]), float(numbers_there[-1]), rtol=1e-3)


def test_memory_count_and_flops_equal_the_seeds(
    seed_config: TrainConfig, seed_log: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level("INFO", logger="absl"):
        report.log_compiled_memory(CompiledMemory())
        report.log_parameter_count({"w": jax.ShapeDtypeStruct((1_104_218_112,), np.float32)})
    report.log_flops(step_flops(seed_config))
    report.log_mesh(AbstractMesh(tuple(32 if axis == "fsdp" else 1 for axis in MESH_AXES), MESH_AXES))
    theirs = [line.split("] ", 1)[-1] for line in seed_log.splitlines()]
    for record in caplog.records:
        # the seeds' total was rounded after their parts were added
        assert record.getMessage() in theirs
    printed = capsys.readouterr().out.splitlines()
    assert [line.rstrip() for line in printed] == [
        "Per train step:",
        " Total TFLOPs: 13.59",
        " split as 93.93% learnable weight flops and 6.07% attention flops",
        "fsdp: 32",
    ]
    assert all(line in theirs for line in printed)


def test_missing_device_memory_has_a_reason(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="absl"):
        report.log_device_memory("After params initialized")
    messages = [record.getMessage() for record in caplog.records]
    assert messages[0] == "\nMemstats: After params initialized:"
    assert messages[1].startswith("\tMemstats unavailable, error: ")


def test_device_memory_is_printed_as_in_the_seeds(
    seed_log: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Device:
        platform = "tpu"

        def memory_stats(self) -> dict[str, int]:
            return {"bytes_in_use": int(0.43 * 2**30), "bytes_limit": int(31.25 * 2**30)}

        def __str__(self) -> str:
            return "TPU_0(process=0,(0,0,0,0))"

    monkeypatch.setattr(jax, "local_devices", lambda: [Device()])
    with caplog.at_level("INFO", logger="absl"):
        report.log_device_memory("After params initialized")
    assert caplog.records[-1].getMessage() in seed_log


def test_a_diverged_loss_is_printed_and_not_raised(seed_config: TrainConfig, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="absl"):
        report.log_step(seed_config, step=1, seconds=1.0, metrics=metrics_of(1, float("nan")))
        report.log_step(seed_config, step=2, seconds=1.0, metrics=metrics_of(1, 200.0))
    assert "loss: nan, lm_loss: nan, perplexity: nan" in caplog.records[0].getMessage()
    assert "loss: 200.000, lm_loss: 200.000, perplexity: inf" in caplog.records[1].getMessage()
