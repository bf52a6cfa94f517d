"""Handles the first Ctrl-C of a flow in this process: ends its jobs, and exits if Prefect's server does not answer."""

import time

from flows.cli.interrupts import at_interrupt, end_at_once
from tasks.services.running_jobs import stop_every_job
from tasks.services.server import Api, answers

MOST_MISSES, PAUSE_S = 2, 0.5
REPORT_S = 30.0  # limit for the flow to report its final state to the server; then the process is ended


def end_in_time(api: Api) -> None:
    """At Ctrl-C, end the jobs, and this process if the server is gone: the flow would retry its reports for minutes."""

    def end() -> None:
        stop_every_job()
        misses, deadline = 0, time.monotonic() + REPORT_S
        while misses < MOST_MISSES and time.monotonic() < deadline:
            misses = 0 if answers(api.url) else misses + 1
            time.sleep(PAUSE_S)
            if api.is_ending():  # the flow has reported its final state
                return
        end_at_once()

    at_interrupt.append(end)
