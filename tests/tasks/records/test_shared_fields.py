"""Records of older stores are read: fields that no reader used are ignored, others are still refused."""

import pytest
from pydantic import BaseModel, ValidationError

from tasks.records.compiled import CollectiveSum, ProgramComparison, ProgramWork, Work
from tasks.records.explanation import TimeExplanation
from tasks.records.observation import Observation, TensorComparison

TIMES = {"sentence": "", "steps": [9, 9], "step_s": [1.0, 1.0]}
PROGRAMS = {"topology": "v6e:4x8", "devices": 32, "hbm_bytes": 1, "differences": []}
COLLECTIVE = {"kind": "all-gather", "in_loop": True, "executions": 8, "bytes": 64}
WORK = {"work": {"flops": 2}, "collectives": [COLLECTIVE]}


@pytest.mark.parametrize(
    ("record", "fields", "older"),
    [
        (TensorComparison, {"sentence": "equal"}, {"paired": 7}),
        (TimeExplanation, TIMES, {"operations_s": [0.5, 0.5]}),
        (ProgramComparison, PROGRAMS, {"baseline_memory": None, "candidate_memory": None}),
        (Observation, {"arm": "a", "step": "f"}, {"call": 0, "processes": 1, "seconds": 0.5, "peak_bytes": 1}),
        (Work, {"flops": 2}, {"executions": 3}),
        (CollectiveSum, COLLECTIVE, {"instructions": 2}),
        (ProgramWork, WORK, {"operations": {"add": 3}, "lines": 90}),
    ],
)
def test_a_field_that_no_reader_used_is_ignored(
    record: type[BaseModel], fields: dict[str, object], older: dict[str, object]
) -> None:
    expected = record.model_validate(fields)
    assert record.model_validate(fields | older) == expected
    assert older.keys().isdisjoint(expected.model_dump())
    with pytest.raises(ValidationError, match="of_another_kind"):
        record.model_validate(fields | {"of_another_kind": 1})
