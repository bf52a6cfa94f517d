"""MaxView's seven rows with MaxView's rules, digit for digit, each judged by what the evidence behind it allows."""

from collections.abc import Callable, Mapping

from configs.comparison import Tolerance
from configs.schema import Frozen
from tasks.diff.arms import ArmRuns
from tasks.diff.decide import Decision, decide_exact
from tasks.records import Better, MetricDiff, RunReading, Source

DIED = "died"
ABSENT = "not in the log"


class Cell(Frozen):
    """One value of a row: the number, the text it is shown as, and its place in the log."""

    value: float | None
    text: str
    source: Source | None = None


EMPTY = Cell(value=None, text="")


class Rule(Frozen):
    """How one of MaxView's rows is read and shown. `judged_by` names our row whose decision it shares."""

    metric: str
    title: str
    unit: str
    better: Better
    rule: str
    read: Callable[[RunReading], Cell]
    decimals: int | None  # of the difference; None: MaxView shows no difference
    judged_by: str | None = None
    unit_of_last_digit: float = 0.0


def _last_step(column: str, decimals: int) -> Callable[[RunReading], Cell]:
    def read(reading: RunReading) -> Cell:
        if reading.steps.is_empty() or column not in reading.steps.columns:
            return EMPTY
        row = reading.steps.row(-1, named=True)
        if row[column] is None:
            return EMPTY
        source = Source(line=row["line"], offset=row["offset"])
        return Cell(value=row[column], text=f"{row[column]:.{decimals}f}", source=source)

    return read


def _mean_step(reading: RunReading) -> Cell:
    steps = reading.steps.filter(reading.steps["step"] != 0) if not reading.steps.is_empty() else reading.steps
    seconds = steps["seconds"].drop_nulls()
    if seconds.is_empty():
        return EMPTY
    mean = float(seconds.sum()) / len(seconds)
    row = steps.row(0, named=True)
    return Cell(value=mean, text=f"{mean:.3f}", source=Source(line=row["line"], offset=row["offset"]))


def _parameters(reading: RunReading) -> Cell:
    parameters = reading.parameters
    if parameters.printed is None or parameters.count is None:
        return EMPTY
    return Cell(value=float(parameters.count), text=parameters.printed, source=parameters.source)


def _memory(reading: RunReading) -> Cell:
    if not reading.memory.devices:
        return EMPTY
    fullest = max(reading.memory.devices, key=lambda device: device.percent)
    source = Source(line=fullest.line, offset=fullest.offset)
    return Cell(value=fullest.percent, text=f"{fullest.percent:.2f}", source=source)


def _jax(reading: RunReading) -> Cell:
    return Cell(value=None, text=reading.environment.jax or "")


RULES: tuple[Rule, ...] = (
    Rule(
        metric="parameters", title="Parameters", unit="", better="equal", rule="as printed", read=_parameters,
        decimals=None,
    ),
    Rule(
        metric="final_loss", title="Final loss", unit="", better="lower", rule="last step", read=_last_step("loss", 4),
        decimals=4, unit_of_last_digit=0.001,
    ),
    Rule(
        metric="tflops_per_device", title="TFLOP/s", unit="TFLOP/s/device", better="higher", rule="last step only",
        read=_last_step("tflops_per_device", 3), decimals=3, judged_by="step_time_s",
    ),
    Rule(
        metric="tokens_per_s", title="Tok/s", unit="tokens/s/device", better="higher", rule="last step only",
        read=_last_step("tokens_per_s_per_device", 1), decimals=3, judged_by="step_time_s",
    ),
    Rule(
        metric="avg_step_time_s", title="Avg s/step", unit="s", better="lower", rule="mean without step 0",
        read=_mean_step, decimals=3, judged_by="step_time_s",
    ),
    Rule(
        metric="memory_percent", title="Memory %", unit="%", better="lower", rule="fullest device", read=_memory,
        decimals=2, unit_of_last_digit=0.01,
    ),
    Rule(metric="jax", title="JAX", unit="", better="equal", rule="as printed", read=_jax, decimals=None),
)  # fmt: skip


def maxview_rows(
    baseline: ArmRuns, candidate: ArmRuns, tolerances: Mapping[str, Tolerance], decisions: Mapping[str, Decision]
) -> list[MetricDiff]:
    """The seven rows. `decisions` holds those of our own rows, which single-step rows share."""
    return [_row(rule, baseline, candidate, tolerances, decisions) for rule in RULES]


def _row(
    rule: Rule,
    baseline: ArmRuns,
    candidate: ArmRuns,
    tolerances: Mapping[str, Tolerance],
    decisions: Mapping[str, Decision],
) -> MetricDiff:
    left, right = rule.read(baseline.reading), rule.read(candidate.reading)
    difference = None if left.value is None or right.value is None else right.value - left.value
    decision = _decide(rule, left, right, baseline, candidate, tolerances, decisions)
    return MetricDiff(
        metric=rule.metric,
        title=rule.title,
        unit=rule.unit,
        better=rule.better,
        rule=rule.rule,
        group="maxview",
        baseline=left.value,
        candidate=right.value,
        baseline_text=_shown(left, baseline),
        candidate_text=_shown(right, candidate),
        difference=difference,
        difference_text=show_difference(difference, rule.decimals),
        threshold=decision.threshold,
        threshold_text=decision.threshold_text,
        verdict=decision.verdict,
        reason=decision.reason,
        baseline_source=left.source,
        candidate_source=right.source,
    )


def _shown(cell: Cell, arm: ArmRuns) -> str:
    if cell.text:
        return cell.text
    return DIED if arm.dead else ABSENT


def show_difference(difference: float | None, decimals: int | None) -> str:
    """The difference as MaxView prints it: signed, `0` for none, `—` where it shows none."""
    if difference is None or decimals is None:
        return "—"
    text = f"{difference:+.{decimals}f}"
    return "0" if float(text) == 0 else text


def _decide(
    rule: Rule,
    left: Cell,
    right: Cell,
    baseline: ArmRuns,
    candidate: ArmRuns,
    tolerances: Mapping[str, Tolerance],
    decisions: Mapping[str, Decision],
) -> Decision:
    missing = missing_decision(bool(left.text), bool(right.text), baseline, candidate)
    if missing:
        return missing
    if rule.metric == "jax":
        if left.text == right.text:
            return Decision(verdict="same", reason="the same version", threshold_text="equal")
        reason = "different versions: this alone can change speed, memory and losses"
        return Decision(verdict="unknown", reason=reason, threshold_text="equal")
    if rule.judged_by:
        shared = decisions.get(rule.judged_by)
        why = "a single step is not a measurement" if "last" in rule.rule else "the mean is ruled by stalls"
        if shared is None:
            return Decision(verdict="unknown", reason=f"{why}, and there are too few steps for more")
        return shared.model_copy(update={"reason": f"{why}; the steady steps say: {shared.reason}", "threshold": None})
    assert left.value is not None  # rows that share no decision have a number
    assert right.value is not None
    name = {"final_loss": "loss"}.get(rule.metric, rule.metric)
    return decide_exact(
        left.value,
        right.value,
        better=rule.better,
        tolerance=tolerances[name],
        precision="printed precision",
        unit=rule.unit_of_last_digit,
    )


def missing_decision(has_left: bool, has_right: bool, baseline: ArmRuns, candidate: ArmRuns) -> Decision | None:
    """The decision when a value is missing on one side or both; None when both are there."""
    if has_left and has_right:
        return None
    for arm, has in ((baseline, has_left), (candidate, has_right)):
        if not has and arm.dead:
            return Decision(verdict="unknown", reason=f"{arm.label} died before it could say")
    if not has_left and not has_right:
        return Decision(verdict="unknown", reason="neither log says")
    return Decision(verdict="unknown", reason=f"the log of {(candidate if has_left else baseline).label} does not say")
