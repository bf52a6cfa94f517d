"""Starts and stops a local Prefect server and worker, and creates work pool, limits, automations and deployments."""

import hashlib
import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from configs.errors import ConfigError
from configs.frozen import Frozen
from configs.read import CONFIG_ROOT
from tasks.launch import processes
from tasks.services import prefect_settings as environment
from tasks.services.kept_programs import Kept, end_kept, read_kept, start_kept
from tasks.services.server import ServerError, answers
from tasks.store.atomic import write_atomically

ROOT = CONFIG_ROOT.parent
# in a clone, and in the wheel
PREFECT_FILES = (ROOT / "deployments" / "prefect.yaml", ROOT / "configs" / "deployments" / "prefect.yaml")
SERVER, WORKER = "server", "worker"
POOL = "maxview"  # name of the work pool
PLACE_FILE = "place.json"
STARTUP_S = 180.0
WORKER_PATIENCE_S = 60.0  # from SIGTERM to SIGKILL: its flows first end their jobs, which save checkpoints
SERVER_PATIENCE_S = 20.0  # from SIGTERM to SIGKILL
LOOPBACK = ("127.0.0.1", "localhost", "::1")
EVERYWHERE = ("0.0.0.0", "::")  # hosts that mean all network interfaces
AUTH = "PREFECT_SERVER_API_AUTH_STRING"
DATABASE = "PREFECT_SERVER_DATABASE_CONNECTION_URL"
LEASES = "prefect.server.concurrency.lease_storage.filesystem"


class Place(Frozen, extra="ignore"):  # the file of an older version has further fields
    """The settings of a local Prefect server: folders and address."""

    state: Path  # folder of the server's home, logs and process identities
    out: str  # address of the default store
    host: str = "127.0.0.1"
    port: int = 4200
    home: str | None = None  # PREFECT_HOME of the server; None: the server was not started yet
    database: str | None = None  # hash of the database's address; None: the database is in `home`

    @property
    def url(self) -> str:
        """The address of the server from this machine; loopback if the server listens on all interfaces."""
        host = "127.0.0.1" if self.host in EVERYWHERE else self.host
        return f"http://{host}:{self.port}"


def start_services(place: Place, say: Callable[[str], None]) -> None:
    """Start server and worker unless they run; create or update pool, limits, automations and deployments.

    Raises ConfigError, ServerError.
    """
    _check(place)
    settings = environment_of(place, os.environ)
    place = place.replace(**home_and_database_of(settings))
    place.state.mkdir(parents=True, exist_ok=True)
    write_atomically(place.state / PLACE_FILE, place.model_dump_json(indent=1) + "\n")
    if read_kept(SERVER, place.state, Kept) is None:
        _check_port(place)
    words = ("server", "start", "--host", place.host, "--port", str(place.port))
    wait_for_server(place, _start(SERVER, words, place.state, settings, say))
    os.environ.update(settings)  # Prefect's client reads them when it is imported
    from tasks.services.set_up import set_up, set_up_automations

    set_up(POOL, say)
    deploy(settings)
    say(f"deployments: as in {find_prefect_file()}")
    set_up_automations(say, webhook=os.environ.get("MAXVIEW_WEBHOOK_URL"))
    _start(WORKER, ("worker", "start", "--pool", POOL, "--name", "maxview"), place.state, settings, say)


def _start(
    name: str, words: Sequence[str], state: Path, settings: Mapping[str, str], say: Callable[[str], None]
) -> Kept:
    """Start `prefect WORDS…` unless it runs; return the identity of its process."""
    if (kept := read_kept(name, state, Kept)) is not None:
        say(f"{name}: runs already")
        return kept
    argv = [sys.executable, "-m", "prefect", *words]
    kept = start_kept(name, argv, state=state, folder=ROOT, environment=settings)
    say(f"{name}: started, log {kept.log}")
    return kept


def environment_of(place: Place, caller: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of server, worker and client. `caller`: variables of this process.

    The caller's variables override all settings except PREFECT_API_URL, MAXVIEW_OUT and MAXVIEW_HOME.
    """
    chosen = environment.SETTINGS | {
        "PREFECT_HOME": str(place.state / "prefect"),
        "PREFECT_API_URL": f"{place.url}/api",
        # trainers' lines are in the user interface; printing them too would cost each run a second
        "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "WARNING",
        "PREFECT_DEPLOYMENTS_DEFAULT_WORK_POOL_NAME": POOL,
        # lets `prefect deployment run --watch` show a flow run's log lines; the last ones are headline and page
        "PREFECT_SERVER_LOGS_STREAM_OUT_ENABLED": "true",
        "PREFECT_SERVER_LOGS_STREAM_PUBLISHING_ENABLED": "true",
        # leases of slices survive a restart of the server, and expire if their flow is killed
        "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": LEASES,
    }
    here = {"PREFECT_API_URL": f"{place.url}/api", "MAXVIEW_OUT": place.out, "MAXVIEW_HOME": str(ROOT)}
    settings = chosen | dict(caller) | here
    if settings.get(AUTH):  # server and client use the same password
        settings.setdefault("PREFECT_API_AUTH_STRING", settings[AUTH])
    return settings


def home_and_database_of(settings: Mapping[str, str]) -> dict[str, str | None]:
    """Return the fields `home` and `database` of a server's Place, from the server's environment `settings`."""
    address = settings.get(DATABASE)
    return {
        "home": str(Path(settings["PREFECT_HOME"]).expanduser().absolute()),
        # a hash, because the address may contain a password
        "database": hashlib.sha256(address.encode()).hexdigest()[:16] if address else None,
    }


def listens(server: Kept, port: int) -> bool:
    """Return whether a process of this server's session listens on a port."""
    for pid in processes.members(server):
        with suppress(psutil.Error):
            sockets = psutil.Process(pid).net_connections()
            if any(one.status == psutil.CONN_LISTEN and one.laddr.port == port for one in sockets):
                return True
    return False


def _check(place: Place) -> None:
    problems = []
    if place.host not in LOOPBACK and not os.environ.get(AUTH):
        problems.append(
            f"--host {place.host} lets other machines start programs here: set {AUTH}=user:password, or use 127.0.0.1"
        )
    if problems:
        raise ConfigError(problems)


def _check_port(place: Place) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((place.host, place.port))
        except OSError as error:
            raise ConfigError(
                [f"{place.host}:{place.port} cannot be bound ({error.strerror}): choose another --port"]
            ) from error


def wait_for_server(place: Place, server: Kept) -> None:
    """Wait until the server's API answers.

    Raises ServerError if the server ends, or does not answer within STARTUP_S seconds.
    """
    deadline = time.monotonic() + STARTUP_S
    while not (answers(f"{place.url}/api") and listens(server, place.port)):
        if not processes.is_running(server):
            said = "\n".join(Path(server.log).read_text(errors="replace").splitlines()[-5:])
            raise ServerError(f"Prefect's server ended while starting: {said}")
        if time.monotonic() > deadline:
            raise ServerError(
                f"Prefect's server at {place.url} does not answer: see {server.log}, or maxview down first"
            )
        time.sleep(0.2)


def find_prefect_file() -> Path:
    """Return the file with the deployments."""
    return next(path for path in PREFECT_FILES if path.is_file())


def deploy(settings: Mapping[str, str]) -> None:
    """Create or update every deployment in the file of deployments. Raises ServerError with Prefect's output."""
    file = str(find_prefect_file())
    argv = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all", "--prefect-file", file]
    done = subprocess.run(
        argv, cwd=ROOT, env=dict(settings), capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-8:])
        raise ServerError(f"the deployments cannot be created:\n{said}")


def stop_services(state: Path, say: Callable[[str], None]) -> bool:
    """End the worker, its flow runs and their jobs, then the server. Returns whether server or worker ran.

    Also ends the jobs in the default store whose flow runs ended earlier. If the server does not listen, ends only the
    worker, which ends its flow runs itself, and the server's process.

    Raises ConfigError if the server uses another home or database than this command.
    """
    place_file = state / PLACE_FILE
    server = read_kept(SERVER, state, Kept)
    place = Place.model_validate_json(place_file.read_text()) if place_file.is_file() else None
    if server is not None and place is not None and place.home is not None:
        mine = home_and_database_of(environment_of(place, os.environ))
        if mine != {"home": place.home, "database": place.database}:
            raise ConfigError(
                [
                    f"the server of {state} uses the home {place.home}, this command {mine['home']}"
                    + (" or on another database" if mine["home"] == place.home else "")
                    + f": type PREFECT_HOME={shlex.quote(place.home)} maxview down, with the server's database"
                ]
            )
    if server is None or place is None or not listens(server, place.port):
        worker = _end(WORKER, state, WORKER_PATIENCE_S, say)
    else:
        os.environ.update(environment_of(place, os.environ))  # Prefect's client reads them when it is imported
        from tasks.services.flow_runs import end_runs, find_begun

        begun = find_begun(place.out, say)
        worker = _end(WORKER, state, WORKER_PATIENCE_S, say)
        end_runs(begun, place.out, say)
    return _end(SERVER, state, SERVER_PATIENCE_S, say) or worker


def _end(name: str, state: Path, patience_s: float, say: Callable[[str], None]) -> bool:
    kept = read_kept(name, state, Kept)
    if kept is None:
        return False
    by_itself = end_kept(kept, state=state, patience_s=patience_s)
    say(f"{name}: ended" if by_itself else f"{name}: did not end within {patience_s:g} s, and was killed")
    return True
