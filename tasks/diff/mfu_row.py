"""Turns the steady steps of two arms into the share that they get of what their devices can do."""

from tasks.diff.arms import ArmRuns
from tasks.diff.metric_row import Arms, Cell, Metric, make_row, missing_decision, not_judged
from tasks.records import MetricDiff, Source

MFU = Metric(
    name="mfu",
    title="MFU",
    unit="%",
    better="higher",
    rule="TFLOP of a step and device, by the steady step time, over the TFLOP/s that the device can do",
    decimals=2,
)
# what a device's name begins with -> its TFLOP/s in bfloat16, dense, as its maker says; the first that fits
PEAKS = {
    "TPU v4": 275.0, "TPU v5 lite": 197.0, "TPU v5e": 197.0, "TPU v5": 459.0, "TPU v6": 918.0,
    "NVIDIA A100": 312.0, "NVIDIA H100 80GB HBM3": 989.0, "NVIDIA H200": 989.0, "NVIDIA B200": 2250.0,
}  # fmt: skip


def mfu_row(arms: Arms, steady: MetricDiff) -> MetricDiff | None:
    """Shown, for the step time is judged; None unless the logs of both, or of the one that lived, name FLOPs and a
    known device.

    steady: the row of the step time, in seconds.
    """
    left = _cell(arms[0], steady.baseline, steady.baseline_source)
    right = _cell(arms[1], steady.candidate, steady.candidate_source)
    lacking = [arm for arm, cell in zip(arms, (left, right), strict=True) if cell is None]
    if len(lacking) == 2 or any(not arm.dead for arm in lacking):
        return None
    cells = (left or Cell(), right or Cell())
    decision = not_judged("follows from the steady step time, which is judged")
    return make_row(MFU, cells, arms, missing_decision(cells, arms) or decision)


def _cell(arm: ArmRuns, seconds: float | None, source: Source | None) -> Cell | None:
    kind, flops = arm.reading.environment.device_kind or "", arm.reading.flops
    peak = next((peak for name, peak in PEAKS.items() if kind.startswith(name)), None)
    if peak is None or flops.total_tflops is None or not seconds:
        return None
    share = 100 * flops.total_tflops / seconds / peak
    return Cell(value=share, text=f"{share:.2f}", source=source)
