"""Reports a flow's result: its last log lines (headlines, pages), and a final state named by the verdict."""

import logging
from collections.abc import Iterable, Sequence
from typing import Any

from prefect import get_run_logger
from prefect.client.schemas.objects import State
from prefect.exceptions import FailedRun
from prefect.states import Completed, Failed

from tasks.diff import exit_status
from tasks.records import ComparisonRecord

# Prefect's loggers that print a traceback for a Failed state
ENGINE = ("prefect.engine", "prefect.flow_runs")
# Names of Failed states that are a verdict: the flow itself succeeded.
REGRESSED, CHANGED = FOUND = ("Regressed", "Changed")


class Verdicts(logging.Filter):
    """A log filter that drops the tracebacks of FailedRun, with which a flow returns a Failed state on purpose."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], FailedRun))


def log_result(lines: Iterable[tuple[str, str]]) -> None:
    """Log (headline, address of the page) pairs as the flow run's last lines, and send them to the server at once.

    Prefect sends log lines in batches: without this, the final state could arrive before them.
    """
    for name in ENGINE:
        logger = logging.getLogger(name)
        if not any(isinstance(one, Verdicts) for one in logger.filters):
            logger.addFilter(Verdicts())
    for headline, page in lines:
        get_run_logger().info("%s", headline)
        get_run_logger().info("page: %s", page)
    for handler in logging.getLogger("prefect.flow_runs").handlers:
        handler.flush()  # takes five seconds at most


def final_state(comparisons: Sequence[ComparisonRecord], problem: str = "") -> State[Any]:
    """Return the flow run's state, named by the verdict; Failed if a case regressed, changed or died."""
    status = exit_status(comparisons)
    alone = len(comparisons) == 1  # the flow run's name already contains the case
    verdicts = [record.headline if alone else f"{record.case}: {record.headline}" for record in comparisons]
    message = " · ".join(([problem] if problem else []) + verdicts)[:1000]
    if status == 1:
        worse = any(record.verdict != "changed" for record in comparisons if exit_status([record]) == 1)
        return Failed(name=REGRESSED if worse else CHANGED, message=message)
    names = {0: "Improved" if any(r.verdict == "improved" for r in comparisons) else "Same", 3: "Unknown"}
    return Completed(name=names[status], message=message)
