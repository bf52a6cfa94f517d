"""The sample log of each dialect is recognised and read completely."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tasks.scrape.dialects import DIALECTS
from tasks.scrape.read_log import scrape

SAMPLES = Path(__file__).parents[2] / "samples"


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("maxtext", range(6)),
        ("megatron", range(1, 7)),
        ("torchtitan", (1, 10, 20, 30, 40, 50)),
        ("nemo", range(6)),
        ("mllog", (10, 20, 30, 40)),
        ("axlearn", range(6)),
        ("hugging_face", range(1, 7)),
        ("json_lines", range(6)),
        ("levanter", (11, 149, 399)),
    ],
)
def test_a_sample_is_read_completely(name: str, steps: Sequence[int]) -> None:
    (run,) = scrape(SAMPLES / "logs" / f"{name}.txt").runs
    assert run.format == name
    assert run.steps["step"].to_list() == list(steps)
    # Levanter's progress shows no end
    assert (run.coverage.step_lines_parsed, run.coverage.complete) == (len(steps), name != "levanter")
    assert run.error is None


def test_every_dialect_has_a_sample() -> None:
    found = {path.stem for path in (SAMPLES / "logs").glob("*.txt")}
    assert found == {dialect.name for dialect in DIALECTS}
