"""The files named in MaxText's guide, under its paths, read by other programs."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from jax.profiler import ProfileData
from tensorboardX.proto.event_pb2 import Event

from configs.load import load_train_config
from configs.schema import TrainConfig
from model.train.loop import train
from model.train.stop import StopSignal
from tasks.scrape.event_files import read_records

pytestmark = pytest.mark.flows

type MiniConfig = Callable[..., TrainConfig]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, mini_config: MiniConfig) -> tuple[TrainConfig, Path]:
    folder = tmp_path_factory.mktemp("runs")
    outputs = {"enable_tensorboard": True, "profiler": "xplane", "profiler_steps": 2, "gcs_metrics": True}
    config = mini_config("13_eval", base_output_directory=folder, eval_interval=3, **outputs)
    assert train(config, StopSignal()) == 0
    return config, folder / "run"


def test_metrics_have_learning_rate_norms_perplexity_and_evaluations(run: tuple[TrainConfig, Path]) -> None:
    lines = [json.loads(line) for line in (run[1] / "metrics.jsonl").read_text().splitlines()]
    assert {"learning_rate", "grad_norm", "raw_grad_norm", "param_norm", "perplexity"} <= lines[0].keys()
    assert [line["step"] for line in lines if "eval_loss" in line] == [2, 5]
    (text,) = (run[1] / "metrics").iterdir()
    assert text.name == "metrics_step_000000_to_step_000005.txt"
    assert [json.loads(line) for line in text.read_text().splitlines()] == lines


def test_tensorboard_has_a_scalar_for_every_metric_and_step(run: tuple[TrainConfig, Path]) -> None:
    (events,) = (run[1] / "tensorboard").glob("events.out.tfevents.*")
    found: dict[str, list[int]] = {}
    for record in read_records(events):
        event = Event.FromString(record)
        for value in event.summary.value:
            found.setdefault(value.tag, []).append(event.step)
    for tag in ("learning/loss", "learning/grad_norm", "learning/current_learning_rate", "perf/step_time_seconds"):
        assert found[tag] == list(range(6)), tag
    assert found["eval/avg_loss"] == [2, 5]


def test_the_profile_is_where_tensorboard_expects_it_and_shows_the_step(run: tuple[TrainConfig, Path]) -> None:
    (trace,) = (run[1] / "tensorboard/plugins/profile").glob("*/*.xplane.pb")
    planes = ProfileData.from_file(str(trace)).planes
    names = [event.name for plane in planes for line in plane.lines for event in line.events]
    assert len([name for name in names if "train_step" in name]) >= 2  # the profiled steps
    assert names.count("train") == 2  # tools distinguish the steps by it


def test_the_config_can_be_trained_again(run: tuple[TrainConfig, Path]) -> None:
    assert load_train_config(run[1] / "config.yml", []) == run[0]
