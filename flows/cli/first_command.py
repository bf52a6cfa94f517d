"""Hands the first command over to a spare process that is started for it: nothing is loaded twice, and it stays."""

import os
import re
import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from socket import socket

from rich.console import Console

from flows.cli.hand_over import connect, follow, missing_spare, prefect_files
from flows.cli.interrupts import NothingToUndo

PATIENCE_S = 120.0  # with a spare process that loads: this process would take as long
PAUSE_S = 0.02
NAMES_SERVER = re.compile(r"PREFECT_API_URL|^\s*(?:\[(?:tool\.prefect\.)?api\]|api\b.*=)", re.MULTILINE)


def hand_over_first(console: Console) -> None:
    """End as the copy ends that does this command; return where it has to be done here. Raises ServerError."""
    path = missing_spare()
    if path is None:
        return
    with NothingToUndo(), console.status("starting Prefect") if console.is_terminal else nullcontext():
        from tasks.services.server import EmbeddedServer
        from tasks.services.settings import prepare

        began_in = dict(os.environ)
        prepare()
        if has_server_of_its_own():
            return
        embedded = EmbeddedServer()
        server = embedded.process or embedded.server
        assert server is not None  # it was found or is starting
        line = start_spare(path, server.pid, began_in)
        if line is None:
            embedded.stop()
            return
        embedded.wait()
    if embedded.process is not None:  # where it ends, who looks for it does not find what is left of it
        threading.Thread(target=embedded.process.wait, daemon=True, name="embedded server").start()
    os._exit(follow(line))


def has_server_of_its_own() -> bool:
    """Whether Prefect's settings name a server. Only Prefect knows; it is asked where one of its files may name one."""
    if not any(NAMES_SERVER.search(text) for text in prefect_files()):
        return False
    from prefect.settings import get_current_settings

    return bool(get_current_settings().api.url)


def start_spare(path: Path, server: int, environment: dict[str, str]) -> socket | None:
    """The line to a new spare process, which has loaded, took this command and ends with the server; None: in vain."""
    from tasks.services.resting import REST_S

    argv = [sys.executable, "-P", "-m", "flows.cli.spare", str(path), str(server), str(REST_S)]
    nothing = subprocess.DEVNULL
    spare = subprocess.Popen(
        argv, env=environment, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True
    )
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        has_ended = spare.poll() is not None  # then another command's was faster
        line = connect(path, PATIENCE_S)
        if line is not None or has_ended:
            return line
        time.sleep(PAUSE_S)
    return None
