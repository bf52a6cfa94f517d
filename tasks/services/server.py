"""Gives the command line a Prefect API: the configured one, or an embedded server that later commands reuse.

Prefect can start an embedded server itself. Maxview's embedded server starts in parallel with the import of Prefect,
survives Ctrl-C (the interrupted flow still reports its state to the server), serves later commands, and explains a
failed start.
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

from tasks.launch.processes import wait_for_end
from tasks.services.embedded_server import IDLE_S, explain_home, find_home, make_files
from tasks.store.atomic import explain_little

STARTUP_S = 120.0
PAUSE_S = 0.05  # between two checks of the server
MAX_STARTS, SOON_S = 4, 90.0  # the server is not restarted after 4 ends within 90 seconds
EMBEDDED = {
    # as Prefect sets for its own embedded server: no user interface, and only the services that record runs
    "PREFECT_UI_ENABLED": "0",
    "PREFECT__SERVER_EPHEMERAL": "1",
    "PREFECT__SERVER_FINAL": "1",
    # the server prints its errors, which go to the file `ServerFiles.log`
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "ERROR",
}
JOURNAL_BYTES = 1 << 20  # with less free disk space, SQLite may not be able to write its journal
DATABASE_BYTES = 8 << 20  # a new database with its journal takes 6 MB
# a line of the server's log that names an exception
CAUSE = re.compile(r"[\w.]*(?:Error|Exception)\b.*")


class ServerError(ValueError):
    """Prefect's API is unavailable; the message says what to do."""


@dataclass(frozen=True)
class PrefectApi:
    """A Prefect API that answers requests."""

    url: str
    is_ending: Callable[[], bool] = lambda: False  # returns whether this command has released the embedded server


class EmbeddedServer:
    """The embedded Prefect server on a loopback port: the running one, or a new one that outlives this process."""

    def __init__(self, idle_s: float = IDLE_S) -> None:
        self.ending = False
        self.files, self._idle_s = make_files(), idle_s
        self._users = self.files.use()
        self.process: subprocess.Popen[bytes] | None = None  # None: this command started no server
        self.server = self.files.find()
        if self.server is None:
            self._start(port=0)
        atexit.register(self.stop)

    def _start(self, port: int) -> None:
        # -P ignores modules in the user's working folder. No preexec_fn, because this process has threads: a lock that
        # another thread has during the fork would stay locked in the child.
        words = (self.files.folder, self.files.key, port, self._idle_s)
        with self.files.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tasks.services.embedded_server", *map(str, words)],
                env=os.environ | EMBEDDED,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def keep_alive(self, lost: Callable[[str], None]) -> None:
        """In another thread, restart the server at the same address whenever it ends.

        If it ends too often, call `lost` with the reason and give up.
        """
        threading.Thread(target=self._watch, args=(lost,), daemon=True, name="embedded server").start()

    def _watch(self, lost: Callable[[str], None]) -> None:
        starts: deque[float] = deque(maxlen=MAX_STARTS)
        while True:
            self._wait_for_end()
            if self.ending:
                return
            starts.append(time.monotonic())
            if len(starts) == MAX_STARTS and starts[-1] - starts[0] < SOON_S:
                break
            self._start(port=0 if self.server is None else self.server.port)
        lost(self._explain("ends again and again"))

    def _wait_for_end(self) -> None:
        """Wait until no server runs or starts."""
        while (server := self.files.find()) is not None or self._is_starting():
            if server is not None:
                wait_for_end(server)
            time.sleep(PAUSE_S)

    def _is_starting(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def wait(self) -> None:
        """Wait until the server answers; start one if the server that was found has ended.

        Raises ServerError if a started server ends, or if none answers within STARTUP_S.
        """
        deadline = time.monotonic() + STARTUP_S
        while True:
            starting = self._is_starting()
            self.server = self.files.find()
            if self.server is not None and answers(self.server.url):
                return
            if self.server is None and self.process is None:  # the server that was found has just ended
                self._start(port=0)
            elif self.server is None and not starting:
                raise ServerError(self._explain("ended while starting"))
            if time.monotonic() > deadline:
                raise ServerError(self._explain(f"did not answer within {STARTUP_S:g} s"))
            time.sleep(PAUSE_S)

    def _explain(self, what: str) -> str:
        if self.process is not None and (code := self.process.poll() or 0) < 0:
            name = signal.Signals(-code).name
            return f"Prefect's embedded server {what}: {name} has ended it, sent by another process; try again"
        if full := explain_little(find_home(), DATABASE_BYTES):  # then its log is incomplete
            return f"Prefect's embedded server {what}: {full} (PREFECT_HOME)"
        if denied := explain_home():
            return f"Prefect's embedded server {what}: {denied}"
        lines = self.files.log.read_bytes().decode("utf-8", "replace").splitlines()
        causes = [line.strip() for line in lines if CAUSE.match(line.strip())]
        cause = causes[-1] if causes else "it did not say why"
        return (
            f"Prefect's embedded server {what}: {cause}\n"
            f"Its folder is {find_home()}: move its prefect.db away, set PREFECT_HOME to another folder, or "
            "use a server of your own (prefect server start, then set PREFECT_API_URL)"
        )

    def stop(self) -> None:
        """Release the server: this command no longer needs it."""
        atexit.unregister(self.stop)
        self.ending = True
        self._users.close()

    def discard(self) -> None:
        """Release the server, and end it if this command started it."""
        self.stop()
        if self.process is not None:
            self.process.terminate()
            self.process.wait()


def explain_failure(error: Exception) -> str | None:
    """Return a message about an error response of the server (status 500 or more); None for other errors."""
    from prefect.exceptions import PrefectHTTPStatusError

    if not isinstance(error, PrefectHTTPStatusError) or error.response.status_code < 500:
        return None
    cause = f"Prefect's server failed (status {error.response.status_code} for {error.request.url.path})"
    if full := explain_little(find_home(), JOURNAL_BYTES):
        return f"{cause}: {full} (PREFECT_HOME)"
    return f"{cause}; repeat the command, which continues from here. The server's own log tells more"


@contextmanager
def prefect_api(lost: Callable[[str], None], meanwhile: Callable[[], object]) -> Iterator[PrefectApi]:
    """Yield a Prefect API that answers; flows inside the block use this API. Raises ServerError.

    meanwhile: imports the flows; called while the embedded server, if any, starts.
    lost: called in another thread, with the reason, if the embedded server ends too often.
    """
    named = os.environ.get("PREFECT_API_URL")
    if named:
        check_address(named)
    embedded = None if named else EmbeddedServer()
    # Imported after the server was started, because import and start run in parallel and take several seconds each.
    from prefect.settings import PREFECT_API_URL, get_current_settings, temporary_settings

    meanwhile()
    configured = get_current_settings().api.url
    if configured:  # by the environment or by a Prefect profile
        if embedded:
            embedded.discard()
        check_api(configured)
        yield PrefectApi(configured)
        return
    assert embedded is not None  # without an embedded server, an address is configured
    embedded.wait()
    embedded.keep_alive(lost)
    assert embedded.server is not None  # `wait` has found the server
    with temporary_settings({PREFECT_API_URL: embedded.server.url}):
        yield PrefectApi(embedded.server.url, is_ending=lambda: embedded.ending)


def answers(url: str) -> bool:
    """Return whether a Prefect API answers at an address, within 2 seconds."""
    import httpx

    try:
        return httpx.get(f"{url.rstrip('/')}/health", timeout=2).is_success
    except httpx.HTTPError:
        return False


def check_address(url: str) -> None:
    """Raise ServerError if `url`, the value of PREFECT_API_URL, is no http address: importing Prefect would fail."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        good = False
    if not good:
        raise ServerError(f"PREFECT_API_URL is {url!r:.200}, which is no address such as http://127.0.0.1:4200/api")


def check_api(url: str) -> None:
    """Raise ServerError unless a Prefect API answers at the address and accepts this process's credentials."""
    import httpx
    from prefect.client.orchestration import get_client
    from prefect.exceptions import PrefectHTTPStatusError

    remedy = "start one (prefect server start), or unset PREFECT_API_URL to use an embedded one"
    try:
        health = httpx.get(f"{url.rstrip('/')}/health", timeout=10)
        health.raise_for_status()
        is_prefect = health.json() is True  # other programs also answer, for example a proxy with its login page
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ServerError(f"no Prefect server answers at {url} ({reason}): {remedy}") from error
    except ValueError:
        is_prefect = False
    if not is_prefect:
        raise ServerError(f"the server at {url} is no Prefect server: {remedy}")
    try:
        with get_client(sync_client=True) as client:
            client.read_flow_runs(limit=1)  # needs credentials, unlike the health check
    except PrefectHTTPStatusError as error:
        status = error.response.status_code
        if status in (401, 403):
            login = "PREFECT_API_AUTH_STRING (user:password) or PREFECT_API_KEY"
            raise ServerError(f"the Prefect server at {url} needs a login (status {status}): set {login}") from error
        raise ServerError(f"the server at {url} is no Prefect server (status {status}): {remedy}") from error
    except (httpx.HTTPError, ValueError) as error:
        raise ServerError(f"the server at {url} is no Prefect server ({type(error).__name__}): {remedy}") from error
