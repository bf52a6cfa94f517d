"""Metrics in full precision: every float32 comes back with its bits, and a killed run's torn line does no harm."""

import json
from pathlib import Path

import numpy as np
import pytest
from etils import epath
from hypothesis import given
from hypothesis import strategies as st

from configs.load import ConfigError
from model.train.metrics_file import MetricsFile, json_number, read_losses

pytestmark = pytest.mark.flows


@given(st.floats(width=32, allow_nan=False))
def test_every_float32_reads_back_to_its_bits(value: float) -> None:
    text = json.dumps(json_number(np.float32(value)), allow_nan=False)
    assert np.float32(json.loads(text)).tobytes() == np.float32(value).tobytes()


def test_values_without_json_form_are_words() -> None:
    values = [np.float32("nan"), np.float32("inf"), float("-inf"), 3, 0.5, np.float32(0.1)]
    assert [json_number(value) for value in values] == ["nan", "inf", "-inf", 3, 0.5, 0.1]


def test_a_resumed_run_drops_a_torn_line_and_its_repeated_steps_count(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "metrics.jsonl"
    with MetricsFile(path) as metrics:
        metrics.write({"step": 0, "loss": np.float32(2.5)})
        metrics.write({"step": 1, "loss": np.float32(2.25)})
    with path.open("a", encoding="utf-8") as file:
        file.write('{"step": 2, "lo')
    with MetricsFile(path) as metrics:
        metrics.write({"step": 1, "loss": np.float32("nan")})
    assert [json.loads(line)["step"] for line in path.read_text(encoding="utf-8").splitlines()] == [0, 1, 1]
    losses = read_losses(path)
    assert losses[0] == np.float32(2.5)
    assert np.isnan(losses[1])


def test_an_unwritable_path_names_the_key(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"metrics_file: .*cannot be written.*set metrics_file"):
        MetricsFile(tmp_path / "file" / "metrics.jsonl")


def test_a_copy_is_updated_and_continued(tmp_path: Path) -> None:
    copy = epath.Path(tmp_path / "bucket" / "metrics.jsonl")
    copy.parent.mkdir()
    with MetricsFile(tmp_path / "first machine" / "metrics.jsonl", copy) as metrics:
        metrics.write({"step": 0, "loss": np.float32(2.5)})
        metrics.publish()
        assert read_losses(copy) == {0: np.float32(2.5)}
        metrics.write({"step": 1, "loss": np.float32(2.25)})
    another = tmp_path / "second machine" / "metrics.jsonl"
    another.parent.mkdir()
    another.write_text('{"step": 7, "loss": 1.0}\n')  # another run's
    with MetricsFile(another, copy) as metrics:
        metrics.write({"step": 2, "loss": np.float32(2.0)})
    assert read_losses(copy) == {0: np.float32(2.5), 1: np.float32(2.25), 2: np.float32(2.0)}
