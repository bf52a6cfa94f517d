"""The table of all metrics, in the order of their rows."""

from tasks.metrics.maxview_metrics import MAXVIEW_METRICS
from tasks.metrics.memory_metrics import MEMORY_METRICS
from tasks.metrics.program_metrics import STEP_PROGRAM_METRICS
from tasks.metrics.result_metrics import (
    CHANGE,
    CHECKPOINTS,
    DATA,
    END,
    EVALUATION,
    FINAL_STATE,
    FIRST_CALL,
    FUNCTION,
    LATER_STEPS,
    LOSS,
    RESTORED,
    ROUNDING,
    VALUES,
)
from tasks.metrics.time_metrics import TIME_METRICS

METRICS = (
    END, *MAXVIEW_METRICS, *TIME_METRICS, DATA, LOSS, FUNCTION, CHANGE, LATER_STEPS, FIRST_CALL, EVALUATION, VALUES,
    ROUNDING, FINAL_STATE,
    *STEP_PROGRAM_METRICS, *MEMORY_METRICS, CHECKPOINTS, RESTORED,
)  # fmt: skip
BISECTED_TITLES = {metric.name: metric.title for metric in METRICS if metric.bisected}  # id → title
BY_NAME = {metric.name: metric for metric in METRICS}
