"""Records of one row of a comparison's table: both arms' values, the verdict and its basis."""

from typing import Literal

from configs.schema import Frozen
from tasks.records.source import Source

# "changed": the arms differ, and neither is better. "not judged": the row is only shown.
Verdict = Literal["same", "improved", "regressed", "changed", "unknown", "not judged"]
Better = Literal["higher", "lower", "equal"]


class Decision(Frozen):
    """The verdict on one metric and its basis. Fields are None or empty if they do not apply."""

    verdict: Verdict
    reason: str  # a sentence
    threshold: float | None = None  # in the metric's unit
    threshold_text: str = ""  # e.g. "±2 %", "exact", "equal to 3 decimals"
    # candidate / baseline − 1 of a noisy metric, and the ends of its 99 % interval
    effect: float | None = None
    effect_low: float | None = None
    effect_high: float | None = None
    effect_text: str = ""  # e.g. "-6.6 % (-9.1 … -4.0)"; without noise "+10.6 %"
    level: str = ""  # the judged steps if a run has several levels: "steady steps", "typical steps"
    evidence: str = ""  # number of runs, e.g. "one run of each"
    p_value: float | None = None  # probability of such an effect if the arms are equal
    runs_wanted: int | None = None  # total runs per arm that would probably decide; None: decided, or too many
    cost_text: str = ""  # cost of the additional runs


class MetricDiff(Decision):
    """One row of a comparison's table. Pages and terminal output show its `*_text` fields."""

    metric: str  # name of the metric
    title: str  # its name for display
    unit: str  # empty: none
    better: Better  # which values are better; "equal": any difference counts
    rule: str  # how the value was computed, e.g. "last step, 3 decimals"
    group: Literal["maxview", "ours"]  # "maxview": the MaxView page shows this metric too
    baseline: float | None  # None: no value, or not a number
    candidate: float | None
    baseline_text: str
    candidate_text: str
    difference: float | None  # candidate − baseline
    difference_text: str  # for display
    baseline_source: Source | None = None  # position of the value in the log; None: not from a log
    candidate_source: Source | None = None
    allowed: str = ""  # why the comparison's config allows this row to change; empty: it does not
