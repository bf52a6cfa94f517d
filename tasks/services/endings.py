"""How a flow run ends for those who watch it: with headlines, pages and a verdict for a state, and no traceback."""

import logging
from collections.abc import Iterable, Sequence
from typing import Any

from prefect import get_run_logger
from prefect.client.schemas.objects import State
from prefect.exceptions import FailedRun
from prefect.states import Completed, Failed

from tasks.diff import exit_status
from tasks.records import ComparisonRecord

# both log it: as the run's own line, and as the process's
ENGINE = ("prefect.engine", "prefect.flow_runs")
# the states that are Failed for what was found: the flow itself did all it was to do
REGRESSED, CHANGED = FOUND = ("Regressed", "Changed")


class Verdicts(logging.Filter):
    """Leaves out tracebacks of FailedRun: that is a flow which ended as it was meant to, in a state that is Failed."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], FailedRun))


def tell_end(lines: Iterable[tuple[str, str]]) -> None:
    """Log what was found and where its page is, as the last lines of the flow run, and see that its server has them.

    Whoever watches hears of the end at once, and of what is logged only in batches.
    """
    for name in ENGINE:
        logger = logging.getLogger(name)
        if not any(isinstance(one, Verdicts) for one in logger.filters):
            logger.addFilter(Verdicts())
    for headline, page in lines:
        get_run_logger().info("%s", headline)
        get_run_logger().info("page: %s", page)
    for handler in logging.getLogger("prefect.flow_runs").handlers:
        handler.flush()  # five seconds at most


def final_state(comparisons: Sequence[ComparisonRecord], problem: str = "") -> State[Any]:
    """The flow run's end: Failed if something regressed or an arm died, else Completed; its name is the verdict."""
    status = exit_status(comparisons)
    alone = len(comparisons) == 1  # then the name of the flow run tells the case
    verdicts = [record.headline if alone else f"{record.case}: {record.headline}" for record in comparisons]
    message = " · ".join(([problem] if problem else []) + verdicts)[:1000]
    if status == 1:
        worse = any(record.verdict != "changed" for record in comparisons if exit_status([record]) == 1)
        return Failed(name=REGRESSED if worse else CHANGED, message=message)
    names = {0: "Improved" if any(r.verdict == "improved" for r in comparisons) else "Same", 3: "Unknown"}
    return Completed(name=names[status], message=message)
