"""The difference of two checkpoints on the terminal."""

import pytest

from tasks.publish.terminal.checkpoint_report import print_difference
from tasks.records.compared_checkpoints import ArrayDifference, CheckpointDifference
from tests.wording.sentences import Wording, line_with


def test_arrays_of_different_shapes_are_not_compared(capsys: pytest.CaptureFixture[str], wording: Wording) -> None:
    grown = ArrayDifference(
        role="parameter", names=("params.x",), other_names=("params.x",), shape=(8,), other_shape=(9,),
        dtype="float32", other_dtype="float32",
    )  # fmt: skip
    print_difference(CheckpointDifference(step=9, path="/a/9", other_path="/b/9", arrays=(grown,)), as_json=False)
    wording("parts", line_with(capsys.readouterr().out, "params.x  [8] → [9]").strip())
