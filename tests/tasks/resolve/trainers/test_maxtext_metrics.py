"""TensorBoard files, intact and damaged, written with the library that MaxText uses."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tasks.resolve.trainers.maxtext_metrics import read_maxtext_events, read_maxtext_metrics
from tests.wording.sentences import Wording

tensorboard = pytest.importorskip("tensorboardX", reason="MaxText writes its files with tensorboardX: uv sync")

type Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """write(steps, start, plus): the file of a trainer with this start second."""

    def make(steps: range, start: int = 1, plus: float = 0.0) -> Path:
        folder = tmp_path / "tensorboard" / "a run"
        before = set(folder.glob("*"))
        writer = tensorboard.SummaryWriter(str(folder))
        writer.add_text("num_model_parameters", "1104000")
        for step in steps:
            writer.add_scalar("learning/loss", 9.0 - step / 7 + plus, step)
            writer.add_scalar("learning/total_weights", np.array(65536), step)
            writer.add_scalar("perf/step_time_seconds", 0.1, step)
            if step % 2 == 0:  # at the previous step
                writer.add_scalar("eval/avg_loss", 1.0, step)
        writer.close()
        (path,) = set(folder.glob("*")) - before
        return path.rename(folder / f"events.out.tfevents.{start:010}.host")

    return make


def loss(step: int, plus: float = 0.0) -> float:
    return float(np.float32(9.0 - step / 7 + plus))


def test_every_step_in_float32_under_our_names(write: Write, tmp_path: Path) -> None:
    write(range(5))
    frame = read_maxtext_events(tmp_path / "tensorboard")
    assert frame is not None
    assert frame.columns == ["loss", "total_weights", "step_time_s", "step"]
    assert frame["step"].to_list() == [0, 1, 2, 3, 4]
    assert frame["loss"].to_list() == [loss(step) for step in range(5)]
    assert frame["total_weights"].to_list() == [65536] * 5
    assert str(frame["total_weights"].dtype) == str(frame["step"].dtype) == "Int64"


def test_repeated_steps_are_read_from_the_later_start(write: Write, tmp_path: Path) -> None:
    write(range(6), start=9)
    write(range(4, 8), start=10, plus=1.0)  # later as a number, earlier as text
    frame = read_maxtext_events(tmp_path / "tensorboard")
    assert frame is not None
    assert frame["step"].to_list() == list(range(8))
    assert frame["loss"].to_list() == [loss(step, 1.0 if step >= 4 else 0.0) for step in range(8)]
    write(range(2), start=11, plus=2.0)
    begun_anew = read_maxtext_events(tmp_path / "tensorboard")
    assert begun_anew is not None
    assert begun_anew["loss"].to_list() == [loss(0, 2.0), loss(1, 2.0)]


def test_a_truncated_file_keeps_its_complete_records(write: Write, tmp_path: Path) -> None:
    path = write(range(50))
    whole = path.read_bytes()
    counts = []
    for kept in range(0, len(whole), 97):
        path.write_bytes(whole[:kept])
        frame = read_maxtext_events(tmp_path / "tensorboard")
        counts.append(0 if frame is None else frame.height)
        if frame is not None:
            assert frame["loss"].to_list() == [loss(step) for step in range(frame.height)]
    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == (0, 50)


def test_a_damaged_file_is_named(write: Write, tmp_path: Path, wording: Wording) -> None:
    path = write(range(5))
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 1
    path.write_bytes(whole)
    with pytest.raises(ValueError, match=r"tfevents\.0000000001\.host: ") as error:
        read_maxtext_events(tmp_path / "tensorboard")
    wording("errors", error.value)
    path.write_bytes(os.urandom(300))
    with pytest.raises(ValueError, match="is no TensorBoard file"):
        read_maxtext_events(tmp_path / "tensorboard")


def test_without_files_there_are_no_metrics(tmp_path: Path) -> None:
    assert read_maxtext_events(tmp_path / "tensorboard") is None
    (tmp_path / "tensorboard").mkdir()
    (tmp_path / "tensorboard" / "events.out.tfevents.1.host").touch()
    assert read_maxtext_events(tmp_path / "tensorboard") is None


@pytest.mark.parametrize("values", ['"step": Infinity', '"step": 1, "learning/total_weights": NaN', '"step": "x"'])
def test_a_line_without_a_step_or_weights_is_named(values: str, tmp_path: Path, wording: Wording) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(f'{{"learning/loss": 1.0, "step": 0}}\n{{"learning/loss": 1.0, {values}}}\n')
    with pytest.raises(ValueError, match=r"metrics\.jsonl:2: ") as error:
        read_maxtext_metrics(path)
    wording("errors", str(error.value).partition("'")[0])
