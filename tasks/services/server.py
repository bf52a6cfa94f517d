"""Gives the command line a Prefect API: the configured one, or an embedded server of its own for as long as it runs.

Prefect can start an embedded server by itself. Ours starts while Prefect is still being imported, survives the Ctrl-C
that its parent has to report to it, and says why when it cannot start.
"""

import atexit
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

STARTUP_S = 120.0
STOP_S = 10.0
MOST_STARTS, SOON_S = 4, 90.0  # an embedded server that ends so often within so many seconds is given up
EMBEDDED = {
    # what Prefect sets for its own embedded server: no UI, and only the services that record runs
    "PREFECT_UI_ENABLED": "0",
    "PREFECT__SERVER_EPHEMERAL": "1",
    "PREFECT__SERVER_FINAL": "1",
    # its errors go to a file of ours, not to the terminal
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "ERROR",
}
CAUSE = re.compile(r"[\w.]*(?:Error|Exception)\b.*")


class ServerError(ValueError):
    """Prefect's API cannot be had; the message says what to do."""


@dataclass(frozen=True)
class Api:
    """A Prefect API that answers."""

    url: str
    is_ending: Callable[[], bool] = lambda: False  # whether it is being ended on purpose


class EmbeddedServer:
    """A Prefect server on a free loopback port, ended when this process ends, whichever way it ends."""

    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/api"
        self.ending = False
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the server
        self._turn = threading.Lock()  # of whoever starts it again or ends it
        self._process = self._start()
        # registered before Prefect is imported, so it runs after Prefect has sent its last logs and events
        atexit.register(self.stop)

    def _start(self) -> "subprocess.Popen[bytes]":
        # -P: nothing of the folder that the user happens to be in. No function runs between fork and exec: this process
        # has threads by then, and a lock that one of them holds would stay locked for good in the child
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "tasks.services.embedded", str(self.port)],
            env=os.environ | EMBEDDED,
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )

    def keep_alive(self, lost: Callable[[str], None]) -> None:
        """From now on start it again when it ends, at the same address; `lost` is told when that is in vain."""
        threading.Thread(target=self._watch, args=(lost,), daemon=True, name="embedded server").start()

    def _watch(self, lost: Callable[[str], None]) -> None:
        starts: deque[float] = deque(maxlen=MOST_STARTS)
        while True:
            self._process.wait()
            starts.append(time.monotonic())
            with self._turn:
                if self.ending:
                    return
                if len(starts) == MOST_STARTS and starts[-1] - starts[0] < SOON_S:
                    break
                self._let_go()
                self._process = self._start()
        lost(self._explain("ends again and again"))

    def _let_go(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    def wait(self) -> None:
        """Return when it answers. Raises ServerError if it ends or stays silent."""
        deadline = time.monotonic() + STARTUP_S
        while not answers(self.url):
            if self._process.poll() is not None:
                raise ServerError(self._explain("ended while starting"))
            if time.monotonic() > deadline:
                raise ServerError(self._explain(f"did not answer within {STARTUP_S:g} s"))
            time.sleep(0.05)

    def _explain(self, what: str) -> str:
        self._log.seek(0)
        lines = self._log.read().decode("utf-8", "replace").splitlines()
        causes = [line.strip() for line in lines if CAUSE.match(line.strip())]
        cause = causes[-1] if causes else "it did not say why"
        home = os.environ.get("PREFECT_HOME") or str(Path("~/.prefect").expanduser())
        return (
            f"Prefect's embedded server {what}: {cause}\n"
            f"Its folder is {home}: move its prefect.db away, set PREFECT_HOME to a folder that can be written, "
            "or use a server of your own (prefect server start, then set PREFECT_API_URL)"
        )

    def stop(self) -> None:
        """End it; it writes down what it still holds."""
        atexit.unregister(self.stop)
        with self._turn:
            self.ending = True
            self._process.terminate()
            try:
                self._process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._let_go()
            self._log.close()


@contextmanager
def prefect_api(lost: Callable[[str], None], meanwhile: Callable[[], None]) -> Iterator[Api]:
    """An API that answers; flows inside the block use it. Raises ServerError.

    meanwhile: loads the flows, while an embedded server starts, which takes as long.
    lost: told, by another thread, why an embedded server has ended that cannot be started again.
    """
    named = os.environ.get("PREFECT_API_URL")
    if named:
        check_address(named)
    embedded = None if named else EmbeddedServer()
    # here, after the server was started: the two take several seconds each, side by side
    from prefect.settings import PREFECT_API_URL, get_current_settings, temporary_settings

    meanwhile()
    configured = get_current_settings().api.url
    if configured:  # by the environment or by a Prefect profile
        if embedded:
            embedded.stop()
        check(configured)
        yield Api(configured)
        return
    assert embedded is not None  # without a configured address one was started above
    from tasks.services.slices import alone

    embedded.wait()
    embedded.keep_alive(lost)
    with temporary_settings({PREFECT_API_URL: embedded.url}), alone():
        yield Api(embedded.url, is_ending=lambda: embedded.ending)


def answers(url: str) -> bool:
    """Whether a server answers at an address."""
    import httpx

    try:
        return httpx.get(f"{url.rstrip('/')}/health", timeout=2).is_success
    except httpx.HTTPError:
        return False


def check_address(url: str) -> None:
    """Raises ServerError for what can be no address: Prefect would fail over it while it is imported."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        good = False
    if not good:
        raise ServerError(f"PREFECT_API_URL is {url!r:.200}, which is no address such as http://127.0.0.1:4200/api")


def check(url: str) -> None:
    """Raises ServerError if no Prefect API answers at the address, or it does not let us in."""
    import httpx
    from prefect.client.orchestration import get_client
    from prefect.exceptions import PrefectHTTPStatusError

    remedy = "start one (prefect server start), or unset PREFECT_API_URL to use an embedded one"
    try:
        health = httpx.get(f"{url.rstrip('/')}/health", timeout=10)
        health.raise_for_status()
        known = health.json() is True  # many programs answer, a proxy's login page among them
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ServerError(f"no Prefect server answers at {url} ({reason}): {remedy}") from error
    except ValueError:
        known = False
    if not known:
        raise ServerError(f"what answers at {url} is no Prefect server: {remedy}")
    try:
        with get_client(sync_client=True) as client:
            client.read_flow_runs(limit=1)  # its health it tells everybody
    except PrefectHTTPStatusError as error:
        status = error.response.status_code
        if status in (401, 403):
            asked = "PREFECT_API_AUTH_STRING (user:password) or PREFECT_API_KEY"
            raise ServerError(f"the Prefect server at {url} asks who you are (status {status}): set {asked}") from error
        raise ServerError(f"what answers at {url} is no Prefect server (status {status}): {remedy}") from error
    except (httpx.HTTPError, ValueError) as error:
        raise ServerError(f"what answers at {url} is no Prefect server ({type(error).__name__}): {remedy}") from error
