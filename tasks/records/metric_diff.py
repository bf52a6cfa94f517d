"""One row of a comparison's table, and the basis of its decision."""

from typing import Literal

from configs.schema import Frozen
from tasks.records.source import Source

# "changed": the arms differ, and neither is better; "not judged": shown only
Verdict = Literal["same", "improved", "regressed", "changed", "unknown", "not judged"]
Better = Literal["higher", "lower", "equal"]


class Decision(Frozen):
    """A verdict, its threshold in the metric's unit, and the reason as a sentence."""

    verdict: Verdict
    reason: str
    threshold: float | None = None
    threshold_text: str = ""  # e.g. "±2 %", "exact", "equal to 3 decimals"
    # for a noisy metric: candidate / baseline − 1, with its 99 % interval
    effect: float | None = None
    effect_low: float | None = None
    effect_high: float | None = None
    effect_text: str = ""  # e.g. "-6.6 % (-9.1 … -4.0)"; without noise "+10.6 %"
    level: str = ""  # the steps it is about, if a run has several levels: "steady steps", "middle steps"
    evidence: str = ""  # number of runs, e.g. "one run of each"
    p_value: float | None = None  # probability of such an effect without a difference
    runs_wanted: int | None = None  # runs per arm in total that would probably decide; None: decided, or too many
    cost_text: str = ""  # cost of the missing runs


class MetricDiff(Decision):
    """One row of the table. Surfaces print its texts and never format numbers themselves."""

    metric: str
    title: str
    unit: str
    better: Better
    rule: str  # how the value was computed, e.g. "last step, 3 decimals"
    group: Literal["maxview", "ours"]
    baseline: float | None
    candidate: float | None
    baseline_text: str
    candidate_text: str
    difference: float | None  # candidate − baseline
    difference_text: str
    baseline_source: Source | None = None
    candidate_source: Source | None = None
    allowed: str = ""  # why the comparison's file allows this row to change
