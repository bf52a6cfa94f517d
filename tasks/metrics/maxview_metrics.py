"""The metrics of MaxView (a web tool that compares two logs), with the digits that MaxView prints."""

from tasks.metrics.merged_steps import place_of_row
from tasks.metrics.metric import Metric, OfRun, number
from tasks.records.run import RunRecord
from tasks.records.run_facts import Measured
from tasks.records.shared_fields import Source

MEMORY_DECIMALS = 2  # decimals of the sizes in `Using (GB)` lines; their rounding limits the percentage's precision
SINGLE_STEP = "a single step is not a measurement"


def last_step(column: str, decimals: int) -> OfRun:
    """Return a function that reads the last step's value in a column of the log."""

    def read(run: RunRecord) -> Measured:
        steps = run.reading.steps
        value = steps[column][-1] if steps.height and column in steps.columns else None
        return Measured() if value is None else number(value, decimals, place_of_row(steps, -1))

    return read


def mean_step(run: RunRecord) -> Measured:
    """Return the mean of the printed seconds of all step lines except those of step 0."""
    steps = run.reading.steps
    steps = steps.filter((steps["step"] != 0) & steps["seconds"].is_not_null())
    return (
        Measured() if steps.is_empty() else number(float(steps["seconds"].sum()) / steps.height, 3, place_of_row(steps))
    )


def parameters(run: RunRecord) -> Measured:
    """Return the printed number of parameters. The value is 0 if the printed number is 0.000, as for small models."""
    logged = run.reading.parameters
    if logged.printed is None:
        return Measured()
    return Measured(value=float(logged.count or 0), text=logged.printed, source=logged.source)


def memory_percent(run: RunRecord) -> Measured:
    """Return the used memory of the fullest device, in percent.

    `Measured.unit` is one unit of the last printed digit of the sizes, in percent of the smallest memory.
    """
    devices = run.reading.memory.devices
    if not devices:
        return Measured()
    fullest = max(devices, key=lambda device: device.percent)
    limits = [device.limit_gb for device in devices if device.limit_gb > 0]
    unit = 100.0 * 10.0**-MEMORY_DECIMALS / min(limits) if limits else 0.0
    return number(fullest.percent, 2, Source(line=fullest.line, offset=fullest.offset), unit=unit)


def jax_version(run: RunRecord) -> Measured:
    """Return the version of JAX, as text; empty if unknown."""
    return Measured(text=run.reading.environment.jax or "", source=run.reading.sources.get("jax"))


PARAMETERS = Metric(
    name="parameters", title="Parameters", unit="", better="equal", rule="as printed", decimals=None,
    judged="exact", tolerance="parameters", of=parameters, maxview=True,
    result=True, trend=True, bisected=True, explained=True,
)  # fmt: skip
FINAL_LOSS = Metric(
    name="final_loss", title="Final loss", unit="", better="lower", rule="last step", decimals=4,
    judged="exact", tolerance="loss", verdict_of="loss_per_step", of=last_step("loss", 4), maxview=True,
    result=True, trend=True, explained=True,
)  # fmt: skip
TFLOPS = Metric(
    name="tflops_per_device", title="TFLOP/s", unit="TFLOP/s/device", better="higher", rule="last step only",
    decimals=3, judged="noise", verdict_of="step_time_s", why=SINGLE_STEP, of=last_step("tflops_per_device", 3),
    maxview=True, trend=True, curve="tflops_per_device",
)  # fmt: skip
TOKENS = Metric(
    name="tokens_per_s", title="Tok/s", unit="tokens/s/device", better="higher", rule="last step only", decimals=3,
    judged="noise", verdict_of="step_time_s", why=SINGLE_STEP, of=last_step("tokens_per_s_per_device", 1),
    maxview=True, trend=True, curve="tokens_per_s_per_device",
)  # fmt: skip
MEAN_STEP = Metric(
    name="avg_step_time_s", title="Avg s/step", unit="s", better="lower", rule="mean without step 0", decimals=3,
    judged="noise", verdict_of="step_time_s", why="the mean is ruled by stalls", of=mean_step, maxview=True, trend=True,
)  # fmt: skip
MEMORY_PERCENT = Metric(
    name="memory_percent", title="Memory %", unit="%", better="lower", rule="fullest device", decimals=2,
    judged="exact", tolerance="memory_percent", of=memory_percent, maxview=True, trend=True,
)  # fmt: skip
JAX = Metric(
    name="jax", title="JAX", unit="", better="equal", rule="as printed", decimals=None,
    judged="exact", of=jax_version, maxview=True,
)  # fmt: skip
MAXVIEW_METRICS = (PARAMETERS, FINAL_LOSS, TFLOPS, TOKENS, MEAN_STEP, MEMORY_PERCENT, JAX)
