"""A flow run in Prefect's user interface: its form of parameters, name, tags, last log lines and final state."""

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from inspect import Parameter, Signature
from typing import Annotated, Any
from uuid import UUID

import pydantic
from prefect import Flow, get_run_logger
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State
from prefect.exceptions import CancelledRun, FailedRun
from prefect.runtime import flow_run
from prefect.states import Cancelled, Completed, Failed
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from configs.comparison import load_comparison
from configs.errors import ConfigError
from tasks.diff.judge.exit_status import exit_status
from tasks.diff.judge.next_step import find_deciding_row
from tasks.publish.content.brief import short_title, tell_gate
from tasks.publish.content.row_values import show_percent, show_values
from tasks.publish.content.verdict_words import OUTCOMES, WORST_FIRST, outcome_of, tell_outcome
from tasks.records.compared_case import ComparisonRecord, MetricDiff, Verdict
from tasks.records.convergence import ConvergenceRecord
from tasks.resolve.refs import WORKING_TREE
from tasks.services.flow_names import show_name
from tasks.services.outage import unless_away

# Prefect's loggers that print a traceback for a Failed state
ENGINE = ("prefect.engine", "prefect.flow_runs")
# the outcome in the name of a flow run that is run again
MAX_CHANGE_LENGTH = 32  # characters of a row's values in a run's name
OUTCOME = re.compile(rf" · [{''.join(word.sign for word in OUTCOMES.values())}] .*$")
# Names of Failed states that express a verdict, although the flow itself succeeded.
REGRESSED, CHANGED, DIED, GATE_FAILED = VERDICT_STATES = ("Regressed", "Changed", "Died", "GateFailed")
UNKNOWN = "Unknown"


def with_parameters_of[Given: BaseModel, Result](
    options: type[Given],
) -> Callable[[Callable[[Given], Result]], Callable[..., Result]]:
    """Return a decorator that replaces a function's options record by its fields, each shown in Prefect's run form."""
    parameters = [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if field.is_required() else field.default,
            annotation=Annotated[
                field.annotation, *field.metadata, pydantic.Field(json_schema_extra=field.json_schema_extra)
            ],
        )
        for name, field in options.model_fields.items()
    ]

    def make(function: Callable[[Given], Result]) -> Callable[..., Result]:
        @wraps(function)
        def run(**given: Any) -> Result:
            return function(options(**given))

        run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        return run

    return make


def with_plain_parameters[Made: Flow[..., Any]](made: Made) -> Made:
    """Make a flow send its parameters as pydantic converts them. Prefect's own conversion imports FastAPI (0.3 s)."""

    def convert(parameters: dict[str, Any]) -> dict[str, Any]:
        return {
            name: to_jsonable_python(value, fallback=lambda other: f"<{type(other).__name__}>")
            for name, value in parameters.items()
        }

    made.serialize_parameters = convert  # type: ignore[method-assign]
    return made


def tag_run(comparison: str, cases: Sequence[str], target: str | None, refs: Sequence[str | None] = ()) -> None:
    """Tag this flow run with comparison, cases, target and refs, for Prefect's filters.

    Does nothing outside a flow, or while Prefect's server cannot be reached.
    """
    if flow_run.id is None:
        return
    facts = [("comparison", comparison), *(("case", case) for case in cases), ("target", target)]
    facts += [("branch", ref) for ref in refs]
    tags = {show_name(f"{name}:{value}") for name, value in facts if value}
    with unless_away(), get_client(sync_client=True) as client:
        client.update_flow_run(UUID(flow_run.id), tags=sorted({*flow_run.tags, *tags}))


def name_comparison(
    comparison: str, cases: Sequence[str] | None, target: str | None, refs: tuple[str | None, str | None]
) -> str:
    """Return a comparison's flow run name: cases, arms and target; only the comparison's name if it cannot be read.

    An arm is one of the two compared versions. refs: the requested refs of baseline and candidate; None: the arm's own.
    """
    try:
        spec = load_comparison(comparison)
    except ConfigError:  # the flow's resolve step will report the error
        return show_name(str(comparison))
    arms = [arm.name for arm in spec.arms]
    if spec.has_refs:
        names = [ref or arm.ref or arm.name for ref, arm in zip(refs, spec.arms, strict=True)]
        arms = ["working tree" if name == WORKING_TREE else name.partition(":")[0] for name in names]
    return show_name(f"{', '.join(cases or spec.cases)}: {' vs '.join(arms)} on {target or spec.target}")


def name_outcome(comparisons: Sequence[ComparisonRecord]) -> None:
    """Add the outcome to this flow run's name: `03_dropout: main vs feat/x on cpu · ✗ Step time of runs +16.9 %`.

    Does nothing outside a flow, or while Prefect's server cannot be reached.
    """
    if flow_run.id is None or not comparisons:
        return
    name = f"{OUTCOME.sub('', flow_run.name or '')} · {tell_outcomes(comparisons)}"
    with unless_away(), get_client(sync_client=True) as client:
        client.update_flow_run(UUID(flow_run.id), name=show_name(name))


def tell_outcomes(comparisons: Sequence[ComparisonRecord]) -> str:
    """Return the outcome of comparisons: `✗ Step time of runs +16.9 %`, the row that decides one; `✗ 2 of 18`."""
    worst = min(comparisons, key=lambda record: ("died", *WORST_FIRST).index(outcome_of(record)))
    outcome, row = outcome_of(worst), None if worst.has_died else find_deciding_row(worst)
    if len(comparisons) > 1:
        count = sum(outcome_of(record) == outcome for record in comparisons)
        words = "" if outcome == "same" else f"{count} of {len(comparisons)}"
    else:
        words = _tell_row(row) if row is not None and outcome != "same" else tell_outcome(worst)
    return f"{OUTCOMES[outcome].sign} {words or outcome}"


def _tell_row(row: MetricDiff) -> str:
    """Return a row's name with its change, else with its values: `Step time of runs +16.9 %`, `JAX 0.9.2 → 0.8.1`."""
    change = show_percent(row) or show_values(row)
    return f"{short_title(row)} {change}" if len(change) <= MAX_CHANGE_LENGTH else short_title(row)


def _is_no_verdict(record: logging.LogRecord) -> bool:
    """Return False for log records with a traceback that Prefect makes of a state: the flow returned it on purpose."""
    return not (record.exc_info and isinstance(record.exc_info[1], FailedRun | CancelledRun))


def log_result(lines: Iterable[tuple[str, str]]) -> None:
    """Log (headline, address of the page) pairs as the flow run's last lines, and send them to the server at once.

    Prefect sends log lines in batches: without this, the final state could arrive before them.
    """
    for name in ENGINE:
        logging.getLogger(name).addFilter(_is_no_verdict)  # idempotent
    for headline, page in lines:
        get_run_logger().info("%s", headline)
        get_run_logger().info("page: %s", page)
    for handler in logging.getLogger("prefect.flow_runs").handlers:
        handler.flush()  # takes five seconds at most


def convergence_state(records: Sequence[ConvergenceRecord]) -> State[Any]:
    """Return the flow run's state, named by the worst verdict on convergence."""
    order: tuple[Verdict, ...] = ("regressed", "changed", "unknown", "improved", "same")
    worst = min((record.verdict for record in records), key=order.index)
    message = " · ".join(f"{record.subject}: {record.headline}" for record in records)[:1000]
    return (Failed if worst in order[:2] else Completed)(name=worst.capitalize(), message=message)


def final_state(comparisons: Sequence[ComparisonRecord], problem: str = "") -> State[Any]:
    """Return the flow run's state, named by the worst outcome.

    Failed if a case regressed, changed or died, or does not pass its gate. Cancelled, which is neither red nor green,
    if nothing did and a case is unknown. Else Completed.

    problem: text before the verdicts in the state's message; empty: none.
    """
    status = exit_status(comparisons)
    alone = len(comparisons) == 1  # the flow run's name already contains the case
    told = [" ".join(filter(None, (tell_gate(record), record.headline))) for record in comparisons]
    headlines = [text if alone else f"{record.case}: {text}" for record, text in zip(comparisons, told, strict=True)]
    message = " · ".join(([problem] if problem else []) + headlines)[:1000]
    if status == 1:
        return Failed(name=_name_failure([one for one in comparisons if exit_status([one]) == 1]), message=message)
    if status:
        return Cancelled(name=UNKNOWN, message=message)
    if any(record.gate is not None for record in comparisons):
        return Completed(name="GatePassed", message=message)
    return Completed(
        name="Improved" if any(record.verdict == "improved" for record in comparisons) else "Same", message=message
    )


def _name_failure(bad: Sequence[ComparisonRecord]) -> str:
    if any(record.has_died for record in bad):
        return DIED
    if any(record.gate is not None for record in bad):
        return GATE_FAILED
    return REGRESSED if any(record.verdict != "changed" for record in bad) else CHANGED
