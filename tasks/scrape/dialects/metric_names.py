"""Metric names of trackers and JSON lines → maxview's columns. A name that is not listed is kept, and reported."""

# slashes, dots, spaces and hyphens are underscores here
_LOSSES = (
    "loss", "train_loss", "training_loss", "learning_loss", "reduced_train_loss", "lm_loss", "loss_train",
    "train_loss_step", "train_lm_loss",
)  # fmt: skip
_SECONDS = (
    "seconds", "step_time_s", "step_time", "step_time_seconds", "perf_step_time_seconds", "seconds_per_step",
    "throughput_duration", "train_step_timing_in_s", "train_step_time", "perf_step_time",
)  # fmt: skip
_RATES = ("lr", "learning_rate", "train_lr", "train_learning_rate", "optim_lr", "optim_learning_rate",
          "learning_current_learning_rate", "lr_adam", "lr_adamw")  # fmt: skip
_NORMS = ("grad_norm", "train_grad_norm", "learning_grad_norm", "optim_grad_norm", "gradient_norm", "grad_norm_total",
          "train_gradient_norm")  # fmt: skip
_TFLOPS = ("tflops_per_device", "perf_per_device_tflops_per_sec")
_TOKENS = ("tokens_per_s_per_device", "perf_per_device_tokens_per_sec")
_WEIGHTS = ("total_weights", "learning_total_weights")
COLUMNS = {
    **dict.fromkeys(_LOSSES, "loss"), **dict.fromkeys(_SECONDS, "seconds"), **dict.fromkeys(_RATES, "learning_rate"),
    **dict.fromkeys(_NORMS, "grad_norm"), **dict.fromkeys(_TFLOPS, "tflops_per_device"),
    **dict.fromkeys(_TOKENS, "tokens_per_s_per_device"), **dict.fromkeys(_WEIGHTS, "total_weights"),
}  # fmt: skip
STEPS = ("step", "global_step", "_step", "trainer/global_step", "train/global_step", "iteration")  # in order of choice
WALL = ("wall_s", "_timestamp")  # seconds since 1970 at which a row was written
OTHER_CLOCKS = frozenset({"_runtime", "epoch", "train/epoch"})  # understood, and not compared
_EVALUATIONS = ("eval", "val", "valid", "validation", "test", "evaluation")


def plain(name: str) -> str:
    """Return a metric's name in small letters with underscores."""
    return "".join(one if one.isalnum() else "_" for one in name.strip().lower()).strip("_")


def column_of(name: str) -> str | None:
    """Return the column of a training metric; None if the name is not known."""
    return COLUMNS.get(plain(name))


def evaluation_key(name: str) -> str | None:
    """Return the name without its evaluation prefix, `loss` for `eval/loss`; None if it is no evaluation's."""
    first, _, rest = plain(name).partition("_")
    return rest if first in _EVALUATIONS and rest else None
