"""The table of metrics: requirements of every entry."""

import pytest

from configs.comparison import BY_DEVICE, tolerance_names
from configs.names import list_names
from configs.verdict_rules import load_tolerances
from tasks.metrics.metric import Metric
from tasks.metrics.program_metrics import PROGRAM_METRICS
from tasks.metrics.table import METRICS

EVERY = (*METRICS, *PROGRAM_METRICS)
# tolerances chosen by rules, for varying runs or arms with different weights
CHOSEN = {
    "loss_of_varying_runs", "loss_of_other_draws", "step_values_of_varying_runs", "loss_of_rounding_bfloat16",
    "loss_of_rounding_float32", "loss_of_rounding_choices",
}  # fmt: skip


def test_a_name_belongs_to_one_metric() -> None:
    for table in (METRICS, PROGRAM_METRICS):
        names = [name for metric in table for name in (metric.name, metric.quick) if name]
        assert len(names) == len(set(names))
    units = {metric.name: {other.unit for other in EVERY if other.name == metric.name} for metric in EVERY}
    assert {name: found for name, found in units.items() if len(found) > 1} == {}


def test_every_tolerance_belongs_to_a_metric_and_every_metric_has_its_tolerance() -> None:
    assert {metric.tolerance for metric in EVERY if metric.tolerance} | CHOSEN == set(tolerance_names())
    for name in list_names("tolerances"):
        assert set(load_tolerances(name)) | set(BY_DEVICE) == set(tolerance_names())


@pytest.mark.parametrize("metric", EVERY, ids=lambda metric: metric.name)
def test_an_entry_is_complete(metric: Metric) -> None:
    assert metric.title
    assert metric.rule
    assert metric.judged != "shown" or metric.why or metric.name == "compile_cpu_s", "a shown row says why"
    assert bool(metric.quick) == bool(metric.middle)
    assert not metric.verdict_of or metric.verdict_of in {other.name for other in METRICS}
    read = metric.of or metric.of_runs or metric.of_steps or metric.of_program
    experiments = ("host_step_s",)
    assert read or metric.judged in ("noise", "steps", "proof") or metric.name in experiments, "it comes from somewhere"
    assert not metric.trend or metric.of or metric.of_runs or metric.quick, "the history keeps values of single runs"
