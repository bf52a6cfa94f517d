"""MaxView's seven rows with MaxView's rules, digit for digit, each judged by what the evidence behind it allows."""

from collections.abc import Callable, Mapping

from configs.comparison import Tolerance
from configs.schema import Frozen
from tasks.diff.arms import place_of
from tasks.diff.decide import decide_exact
from tasks.diff.metric_row import Arms, Cell, Cells, Metric, make_row, missing_decision, not_judged
from tasks.diff.software import declared_packages, is_declared
from tasks.records import Decision, MetricDiff, RunReading, Source

LOSS_DECIMALS = 4  # of MaxView
MEMORY_DECIMALS_GB = 2  # of the `Using (GB)` lines, which the percentage comes from


class Reader(Frozen):
    """How one row is read, and its tolerance. `noisy`: why the steady steps are judged instead of its value."""

    metric: Metric
    read: Callable[[RunReading], Cell]
    tolerance: str = ""
    noisy: str = ""


def _last_step(column: str, decimals: int) -> Callable[[RunReading], Cell]:
    def read(reading: RunReading) -> Cell:
        known = not reading.steps.is_empty() and column in reading.steps.columns
        value = reading.steps[column][-1] if known else None
        return Cell() if value is None else _number(value, decimals, place_of(reading.steps, -1))

    return read


def _mean_step(reading: RunReading) -> Cell:
    steps = reading.steps.filter((reading.steps["step"] != 0) & reading.steps["seconds"].is_not_null())
    if steps.is_empty():
        return Cell()
    return _number(float(steps["seconds"].sum()) / steps.height, 3, place_of(steps))


def _number(value: float, decimals: int, source: Source | None) -> Cell:
    return Cell(value=value, text=f"{value:.{decimals}f}", source=source)


def _parameters(reading: RunReading) -> Cell:
    parameters = reading.parameters
    if parameters.printed is None:
        return Cell()
    # a count that was rounded to nothing is compared as it is printed
    return Cell(value=float(parameters.count or 0), text=parameters.printed, source=parameters.source)


def _memory(reading: RunReading) -> Cell:
    if not reading.memory.devices:
        return Cell()
    fullest = max(reading.memory.devices, key=lambda device: device.percent)
    return _number(fullest.percent, 2, Source(line=fullest.line, offset=fullest.offset))


def _jax(reading: RunReading) -> Cell:
    return Cell(text=reading.environment.jax or "", source=reading.sources.get("jax"))


SINGLE_STEP = "a single step is not a measurement"
PARAMETERS = Metric(name="parameters", title="Parameters", unit="", better="equal", rule="as printed", decimals=None)
FINAL_LOSS = Metric(
    name="final_loss", title="Final loss", unit="", better="lower", rule="last step", decimals=LOSS_DECIMALS
)
TFLOPS = Metric(
    name="tflops_per_device", title="TFLOP/s", unit="TFLOP/s/device", better="higher", rule="last step only", decimals=3
)
TOKENS = Metric(
    name="tokens_per_s", title="Tok/s", unit="tokens/s/device", better="higher", rule="last step only", decimals=3
)
MEAN_STEP = Metric(
    name="avg_step_time_s", title="Avg s/step", unit="s", better="lower", rule="mean without step 0", decimals=3
)
MEMORY = Metric(name="memory_percent", title="Memory %", unit="%", better="lower", rule="fullest device", decimals=2)
JAX = Metric(name="jax", title="JAX", unit="", better="equal", rule="as printed", decimals=None)

READERS = (
    Reader(metric=PARAMETERS, read=_parameters, tolerance="parameters"),
    Reader(metric=FINAL_LOSS, read=_last_step("loss", LOSS_DECIMALS), tolerance="loss"),
    Reader(metric=TFLOPS, read=_last_step("tflops_per_device", 3), noisy=SINGLE_STEP),
    Reader(metric=TOKENS, read=_last_step("tokens_per_s_per_device", 1), noisy=SINGLE_STEP),
    Reader(metric=MEAN_STEP, read=_mean_step, noisy="the mean is ruled by stalls"),
    Reader(metric=MEMORY, read=_memory, tolerance="memory_percent"),
    Reader(metric=JAX, read=_jax),
)


def maxview_rows(
    arms: Arms, tolerances: Mapping[str, Tolerance], step_time: Decision, step_time_s: float | None, loss: Decision
) -> list[MetricDiff]:
    """The seven rows. `step_time` is the decision over the steady steps (which differ by `step_time_s`), that the rows
    of single steps share, and `loss` the one over all steps."""
    rows = []
    for reader in READERS:
        cells = (reader.read(arms[0].reading), reader.read(arms[1].reading))
        decision = missing_decision(cells, arms)
        if decision is None and reader.noisy:
            flip = _sign_flip(cells, step_time_s) if reader.metric is MEAN_STEP else ""
            # without a threshold and an effect of its own: the cell's difference is that of the numbers shown
            decision = Decision(
                verdict=step_time.verdict,
                reason=f"judged by the steady steps: {reader.noisy}{flip}",
                **step_time.model_dump(include={"threshold_text", "evidence", "runs_wanted", "cost_text"}),
            )
        elif decision is None:
            decision = _decide(reader, cells, arms, tolerances, loss)
        rows.append(make_row(reader.metric, cells, arms, decision, maxview=True))
    return rows


def _decide(reader: Reader, cells: Cells, arms: Arms, tolerances: Mapping[str, Tolerance], loss: Decision) -> Decision:
    if reader.metric is JAX:
        return _decide_jax(cells, arms)
    left, right = cells[0].value, cells[1].value
    assert left is not None  # rows that share no decision have a number where they have a text
    assert right is not None
    if reader.metric is FINAL_LOSS:
        last = [arm.reading.steps["step"][-1] for arm in arms]
        if last[0] != last[1]:
            return Decision(verdict="unknown", reason=f"the last steps are not the same ({last[0]} and {last[1]})")
        if left != right:  # one of the values of the row of all steps: the same word
            return loss.model_copy(update={"reason": f"{loss.reason}; one of the losses of all steps"})
    return decide_exact(
        left,
        right,
        better=reader.metric.better,
        tolerance=tolerances[reader.tolerance],
        precision="printed precision",
        unit=_percent_of_last_digit(arms) if reader.metric is MEMORY else 0.0,
    )


def _decide_jax(cells: Cells, arms: Arms) -> Decision:
    if cells[0].text == cells[1].text:
        return Decision(verdict="same", reason="the same version", threshold_text="exact")
    if is_declared("jax", declared_packages(arms)):
        return not_judged("different versions, as the arms are meant to have: it can be behind any other difference")
    reason = "different versions: this alone can change speed, memory and losses"
    return Decision(verdict="changed", reason=reason, threshold_text="exact")


def _sign_flip(cells: Cells, steady: float | None) -> str:
    """What to say where the means of all steps and the medians of the steady ones disagree about who is faster."""
    left, right = cells[0].value, cells[1].value
    if left is None or right is None or steady is None or (right - left) * steady >= 0:
        return ""
    return f", and the sign flips ({right - left:+.3f} s here, {steady:+.3f} s between the steady steps)"


def _percent_of_last_digit(arms: Arms) -> float:
    """One unit of the last printed digit of used memory, as a percentage of the smallest device."""
    limits = [device.limit_gb for arm in arms for device in arm.reading.memory.devices if device.limit_gb > 0]
    return 100.0 * 10.0**-MEMORY_DECIMALS_GB / min(limits) if limits else 0.0
