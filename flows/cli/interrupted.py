"""Handles the first Ctrl-C of a flow in this process: stops its jobs, and does not wait for a server that is gone."""

import time

from flows.cli.interrupts import at_interrupt, end_at_once
from tasks.services.running_jobs import stop_every_job
from tasks.services.server import Api, answers

MOST_MISSES, PAUSE_S = 2, 0.5
REPORT_S = 30.0  # time for a flow to report its end to the server


def end_in_time(api: Api) -> None:
    """End the jobs, and this process if its server does not answer: a flow would retry for minutes."""

    def end() -> None:
        stop_every_job()
        misses, deadline = 0, time.monotonic() + REPORT_S
        while misses < MOST_MISSES and time.monotonic() < deadline:
            misses = 0 if answers(api.url) else misses + 1
            time.sleep(PAUSE_S)
            if api.is_ending():  # there is nothing left to tell
                return
        end_at_once()

    at_interrupt.append(end)
