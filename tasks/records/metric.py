"""One row of a comparison's table, and what its decision rests on."""

from typing import Literal

from configs.schema import Frozen
from tasks.records.source import Source

# "changed": it differs, and neither side is better; "not judged": a row that is shown and decides nothing
Verdict = Literal["same", "improved", "regressed", "changed", "unknown", "not judged"]
Better = Literal["higher", "lower", "equal"]


class Decision(Frozen):
    """A word, the threshold behind it in the metric's own unit, and the reason as a sentence."""

    verdict: Verdict
    reason: str
    threshold: float | None = None
    threshold_text: str = ""  # e.g. "±2 %", "exact", "equal to 3 decimals"
    # of a metric with noise: candidate / baseline − 1 as the decision has it, with its 99 % interval
    effect: float | None = None
    effect_low: float | None = None
    effect_high: float | None = None
    effect_text: str = ""  # e.g. "-6.6 % (-9.1 … -4.0)"; without noise "+10.6 %"
    level: str = ""  # of the steps that it is about, where a run has several: "quick steps", "middle steps"
    evidence: str = ""  # how many runs that rests on, e.g. "one run of each"
    p_value: float | None = None  # the chance of such an effect if there is none
    runs_wanted: int | None = None  # runs of each arm, in all, that would probably decide; None: decided, or too many
    cost_text: str = ""  # what the runs that are lacking cost


class MetricDiff(Decision):
    """One row of the table. The texts are what surfaces print; they never format numbers themselves."""

    metric: str
    title: str
    unit: str
    better: Better
    rule: str  # how the value was made, e.g. "last step, 3 decimals"
    group: Literal["maxview", "ours"]
    baseline: float | None
    candidate: float | None
    baseline_text: str
    candidate_text: str
    difference: float | None  # candidate − baseline
    difference_text: str
    baseline_source: Source | None = None
    candidate_source: Source | None = None
    allowed: str = ""  # why the comparison's file allows that this row is changed
