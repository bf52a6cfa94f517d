"""A step time far beyond all steps of the baseline is regressed, whatever load scatters the runs."""

from collections.abc import Callable

import numpy as np
import pytest

from tasks.records.compared_case import ComparisonRecord
from tasks.records.log_reading import Environment
from tasks.records.run import RunRecord

type MakeRun = Callable[..., RunRecord]
RANDOM = np.random.default_rng(0)
CPU = {"environment": Environment(jax="0.12.0", jaxlib="0.12.0", backend="cpu", device_kind="cpu", num_devices=1)}


@pytest.mark.parametrize(("added", "repeats", "word"), [(0.5, 3, "regressed"), (0.0, 3, "unknown")])
def test_a_sleep_of_six_steps_beside_heavy_load(
    make_run: MakeRun, compare: Callable[..., ComparisonRecord], added: float, repeats: int, word: str
) -> None:
    """Load makes a step of 0.08 s take up to four times as long, in another way in each run."""

    def run(arm: str, sleep: float, n: int) -> RunRecord:
        seconds = 0.08 * np.exp(RANDOM.uniform(0, np.log(4))) * np.exp(RANDOM.uniform(0, 0.3, 30)) + sleep
        losses = [9 - step / 100 for step in range(31)]
        return make_run(arm, seconds=[3.0, *map(float, seconds)], losses=losses, repeat=n, commit=arm * 9, reading=CPU)

    record = compare([run("a", 0.0, n) for n in range(repeats)], [run("b", added, n) for n in range(repeats)])
    (row,) = [row for row in record.rows if row.metric == "step_time_s"]
    assert row.verdict == word, row.reason
