"""The metrics of a run's results: end, losses, other values, state, checkpoints. Each has a rule in tasks/diff."""

from tasks.metrics.metric import Metric

END = Metric(
    name="end", title="End of the run", unit="", better="equal", rule="how the run ended", decimals=None,
    judged="proof", result=True,
)  # fmt: skip
LOSS = Metric(
    name="loss_per_step", title="Loss, step by step", unit="", better="lower",
    rule="first step whose loss differs in any run; judged over all steps", decimals=6,
    judged="steps", tolerance="loss", result=True, curve="loss", curve_title="Loss", bisected=True, explained=True,
)  # fmt: skip
EVALUATION = Metric(
    name="evaluations", title="Evaluation", unit="", better="lower",
    rule="first evaluation that differs in any run, else the last one; judged over all of them", decimals=6,
    judged="steps", result=True, optional=True,
)  # fmt: skip
VALUES = Metric(
    name="values_per_step", title="Other values, step by step", unit="", better="equal",
    rule="what else every run writes and no clock decides: norms, rates, counts", decimals=None,
    judged="steps", tolerance="step_values", result=True, bisected=True, explained=True, optional=True,
)  # fmt: skip
FUNCTION = Metric(
    name="function", title="Function of the step", unit="", better="equal",
    rule="results of both steps from equal arguments in float64, where rounding falls to 1e-15", decimals=None,
    judged="proof", result=True, optional=True, bisected=True, explained=True,
)  # fmt: skip
FIRST_CALL = Metric(
    name="first_call", title="First weights and batch", unit="", better="equal",
    rule="digests of the arrays that each arm's first step is given; float64 gives both steps the baseline's",
    decimals=None, judged="proof", result=True, optional=True,
)  # fmt: skip
CHANGE = Metric(
    name="change_coverage", title="The change", unit="", better="equal",
    rule="changed lines that ran, and whether all that writes the state was compared", decimals=None,
    judged="proof", result=True, optional=True,
)  # fmt: skip
LATER_STEPS = Metric(
    name="later_steps", title="Later steps of the host", unit="", better="equal",
    rule="what the host gives its functions in many steps, while those with matrix products return zeros",
    decimals=None, judged="proof", result=True, optional=True,
)  # fmt: skip
DATA = Metric(
    name="data", title="Data", unit="", better="equal",
    rule="digests of each step's batch; where they differ, the baseline's step in float64 with both batches",
    decimals=None, judged="proof", result=True, optional=True,
)  # fmt: skip
ROUNDING = Metric(
    name="rounding_error", title="Rounding error of the step", unit="%", better="lower",
    rule="distance of each arm's step to the same step in float64, relative to its size", decimals=3,
    judged="proof", result=True, optional=True,
)  # fmt: skip
FINAL_STATE = Metric(
    name="final_state", title="Final state", unit="", better="equal",
    rule="the trainer's digest of every array after the last step, over all runs", decimals=None,
    judged="proof", result=True, optional=True,
)  # fmt: skip
RESTORED = Metric(
    name="restored", title="Restored", unit="", better="equal",
    rule="first state of a run that is started again where it saved, array by array, against what was saved",
    decimals=None, judged="proof", result=True, optional=True,
)  # fmt: skip
CHECKPOINTS = Metric(
    name="checkpoints", title="Checkpoints", unit="", better="equal",
    rule="committed and verified, of those announced", decimals=None, judged="proof", result=True, bisected=True,
)  # fmt: skip
