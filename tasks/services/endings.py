"""How a flow run ends for those who watch it: with its headlines and pages, and no traceback about a verdict."""

import logging
from collections.abc import Iterable

from prefect import get_run_logger
from prefect.exceptions import FailedRun

# both log it: as the run's own line, and as the process's
ENGINE = ("prefect.engine", "prefect.flow_runs")


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
