"""Finds the first bit in which the losses and norms of two runs differ, where both wrote them in full."""

import struct

from tasks.records import RunRecord

SAME_BITS = struct.Struct("<d").pack  # NaN equals NaN, and 0.0 differs from -0.0
METRICS = ("loss", "grad_norm", "param_norm")
OTHER_STEPS = "the arms did not train the same steps"


def compare_metrics(left: RunRecord, right: RunRecord) -> tuple[str | None, list[str]]:
    """Where losses and norms first differ in a bit, or why that cannot be asked; and the names of those compared."""
    if left.metrics is None or right.metrics is None:
        return None, []
    frames = [m.unique("step", keep="last", maintain_order=True).sort("step") for m in (left.metrics, right.metrics)]
    if frames[0]["step"].to_list() != frames[1]["step"].to_list():
        return OTHER_STEPS, []
    names = [name for name in METRICS if all(name in frame.columns for frame in frames)]
    for name in names:
        for step, a, b in zip(frames[0]["step"], frames[0][name], frames[1][name], strict=True):
            if (a is None) != (b is None) or (a is not None and SAME_BITS(a) != SAME_BITS(b)):
                return f"{name} differs at step {step}: {a!r} and {b!r}", names
    return None, names
