"""Gives the command line a Prefect API: the configured one, or an embedded server that rests between two commands.

Prefect can start an embedded server by itself. Ours starts while Prefect is still being imported, survives the Ctrl-C
that its command has to report to it, serves the commands after this one, and says why when it cannot start.
"""

import atexit
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from tasks.services.processes import wait_for_end
from tasks.services.resting import REST_S, find_home, make_place

STARTUP_S = 120.0
PAUSE_S = 0.05
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
    is_ending: Callable[[], bool] = lambda: False  # whether this command needs it no more


class EmbeddedServer:
    """A Prefect server on a loopback port: the one that rests here, or a new one, which outlives this process."""

    def __init__(self, rest_s: float = REST_S) -> None:
        self.ending = False
        self.place, self._rest_s = make_place(), rest_s
        self._users = self.place.use()
        self.process: subprocess.Popen[bytes] | None = None  # what this command has started
        self.server = self.place.find()
        if self.server is None:
            self._start(port=0)
        atexit.register(self.stop)

    def _start(self, port: int) -> None:
        # -P: nothing of the folder that the user happens to be in. No function runs between fork and exec: this process
        # has threads by then, and a lock that one of them holds would stay locked for good in the child
        words = (self.place.folder, self.place.key, port, self._rest_s)
        with self.place.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tasks.services.embedded", *map(str, words)],
                env=os.environ | EMBEDDED,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def keep_alive(self, lost: Callable[[str], None]) -> None:
        """From now on start it again when it ends, at the same address; `lost` is called with why that is in vain."""
        threading.Thread(target=self._watch, args=(lost,), daemon=True, name="embedded server").start()

    def _watch(self, lost: Callable[[str], None]) -> None:
        starts: deque[float] = deque(maxlen=MOST_STARTS)
        while True:
            self._wait_for_end()
            if self.ending:
                return
            starts.append(time.monotonic())
            if len(starts) == MOST_STARTS and starts[-1] - starts[0] < SOON_S:
                break
            self._start(port=0 if self.server is None else self.server.port)
        lost(self._explain("ends again and again"))

    def _wait_for_end(self) -> None:
        """Return when there is no server, and none that starts."""
        while (server := self.place.find()) is not None or self._is_starting():
            if server is not None:
                wait_for_end(server)
            time.sleep(PAUSE_S)

    def _is_starting(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def wait(self) -> None:
        """Return when it answers. Raises ServerError if it ends or stays silent."""
        deadline = time.monotonic() + STARTUP_S
        while True:
            starting = self._is_starting()
            self.server = self.place.find()
            if self.server is not None and answers(self.server.url):
                return
            if self.server is None and self.process is None:  # it has ended since it was found
                self._start(port=0)
            elif self.server is None and not starting:
                raise ServerError(self._explain("ended while starting"))
            if time.monotonic() > deadline:
                raise ServerError(self._explain(f"did not answer within {STARTUP_S:g} s"))
            time.sleep(PAUSE_S)

    def _explain(self, what: str) -> str:
        if self.process is not None and (code := self.process.poll() or 0) < 0:
            name = signal.Signals(-code).name
            return f"Prefect's embedded server {what}: {name} has ended it, which it does not send itself; try again"
        lines = self.place.log.read_bytes().decode("utf-8", "replace").splitlines()
        causes = [line.strip() for line in lines if CAUSE.match(line.strip())]
        cause = causes[-1] if causes else "it did not say why"
        return (
            f"Prefect's embedded server {what}: {cause}\n"
            f"Its folder is {find_home()}: move its prefect.db away, set PREFECT_HOME to a folder that can be written, "
            "or use a server of your own (prefect server start, then set PREFECT_API_URL)"
        )

    def stop(self) -> None:
        """This command needs it no more."""
        atexit.unregister(self.stop)
        self.ending = True
        self._users.close()

    def discard(self) -> None:
        """The same, of one that was started for nothing."""
        self.stop()
        if self.process is not None:
            self.process.terminate()
            self.process.wait()


@contextmanager
def prefect_api(lost: Callable[[str], None], meanwhile: Callable[[], None]) -> Iterator[Api]:
    """An API that answers; flows inside the block use it. Raises ServerError.

    meanwhile: loads the flows, while an embedded server starts, which takes as long.
    lost: called by another thread with the reason why an embedded server has ended that cannot be started again.
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
            embedded.discard()
        check(configured)
        yield Api(configured)
        return
    assert embedded is not None  # without a configured address one was started above
    embedded.wait()
    embedded.keep_alive(lost)
    assert embedded.server is not None  # it answers
    with temporary_settings({PREFECT_API_URL: embedded.server.url}):
        yield Api(embedded.server.url, is_ending=lambda: embedded.ending)


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
