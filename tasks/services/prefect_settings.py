"""Prefect's settings for a flow that the command line runs in its own process; the caller's settings win."""

import os
import warnings
from collections.abc import MutableMapping

SETTINGS = {
    # no telemetry, neither the server's nor the client's
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    # a cold start takes about 10 s on two quiet cores, and several times that under load
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    # without these the embedded server forgets task runs when it ends
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE": "100",
    # whole seconds: Prefect 3.8 cuts the fraction off, and 0 makes the server spin on a core
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
    # the pauses double: seven retries outlast four minutes of outage, Prefect's five one minute
    "PREFECT_CLIENT_MAX_RETRIES": "7",
    # seconds between heartbeats of a flow (Prefect: 180): the server of `maxview up` marks a run as Crashed after 90 s
    # without one
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
    # log lines go to the server; the terminal shows the live view
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
    "PREFECT_INTERNAL_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
}


def prepare(environment: MutableMapping[str, str] = os.environ) -> None:
    """Fill in the settings; must run before Prefect is imported."""
    for key, value in SETTINGS.items():
        environment.setdefault(key, value)
    # the embedded server reports this problem with its remedy
    warnings.filterwarnings("ignore", message="Failed to create the Prefect home directory")
