"""Prefect's settings for the flows, servers and workers that maxview starts. The caller's variables override them."""

import os
import warnings

SETTINGS = {
    # disable telemetry of server and client
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    # a cold start takes about 10 s on two idle cores, and several times as long under load
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    # with Prefect's defaults, the embedded server loses recent task runs when the server ends
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE": "100",
    # seconds; Prefect 3.8 truncates fractions, and with 0 the server would use a whole core
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
    # pauses double, so seven retries cover an outage of four minutes; Prefect's default, five, covers one minute
    "PREFECT_CLIENT_MAX_RETRIES": "7",
    # seconds between heartbeats of a flow (Prefect's default: 180); the server of `maxview up` marks a flow run as
    # Crashed after 90 s without a heartbeat
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
    # the terminal shows the live view, so it gets only critical log lines; the server gets all
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
    "PREFECT_INTERNAL_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
}


def set_defaults() -> None:
    """Set each of SETTINGS that the environment does not contain, and hide a warning of Prefect.

    Must be called before Prefect is imported.
    """
    for key, value in SETTINGS.items():
        os.environ.setdefault(key, value)
    # the embedded server's error message reports this problem with a remedy
    warnings.filterwarnings("ignore", message="Failed to create the Prefect home directory")
