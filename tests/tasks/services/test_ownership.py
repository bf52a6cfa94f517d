"""A server's owner is found from its socket, its home and its database, with real processes and sockets."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from configs.errors import ConfigError
from tasks.launch.processes import start_of
from tasks.services import up
from tasks.services.embedded_server import _listen_at
from tasks.services.flow_runs import is_ours
from tasks.services.kept_programs import Kept

pytestmark = pytest.mark.flows

LISTEN = """
import socket, sys, time
with socket.socket() as one:
    one.bind(("127.0.0.1", int(sys.argv[1])))
    one.listen()
    print("up", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def server(tmp_path: Path, free_port: Callable[[], int]) -> Iterator[tuple[Kept, up.Place]]:
    """A listening program, recorded as if `maxview up` with the home `one` had started it."""
    port = free_port()
    argv = [sys.executable, "-c", LISTEN, str(port)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    boot, created = start_of(process.pid)
    kept = Kept(name=up.SERVER, pid=process.pid, created=created, boot=boot, log=str(tmp_path / "log"))
    (tmp_path / f"{up.SERVER}.json").write_text(kept.model_dump_json())
    place = up.Place(state=tmp_path, out=str(tmp_path), port=port)
    owner = up.home_and_database_of({"PREFECT_HOME": str(tmp_path / "one")})
    (tmp_path / up.PLACE_FILE).write_text(place.replace(**owner).model_dump_json())
    yield kept, place
    process.kill()
    process.communicate()


def test_a_port_belongs_to_the_server_that_bound_it(server: tuple[Kept, up.Place]) -> None:
    kept, place = server
    assert up.listens(kept, place.port)
    other = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        boot, created = start_of(other.pid)
        silent = kept.replace(pid=other.pid, created=created, boot=boot)
        assert not up.listens(silent, place.port)  # another process answers there
    finally:
        other.kill()
        other.wait()


@pytest.mark.parametrize(
    ("environment", "reported"),
    [
        ({"PREFECT_HOME": "two"}, "this command .*two"),
        ({"PREFECT_HOME": "one", up.DATABASE: "postgresql://me:secret@db/x"}, "or on another database"),
    ],
)
def test_down_leaves_the_server_of_another_home_or_database(
    environment: dict[str, str],
    reported: str,
    server: tuple[Kept, up.Place],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, str(tmp_path / value) if name == "PREFECT_HOME" else value)
    with pytest.raises(ConfigError, match=reported) as caught:
        up.stop_services(tmp_path, lambda _: None)
    assert f"PREFECT_HOME={tmp_path / 'one'} maxview down" in str(caught.value)
    assert "secret" not in str(caught.value) + (tmp_path / up.PLACE_FILE).read_text()
    os.kill(server[0].pid, 0)  # it still runs


def test_no_other_program_can_take_the_port_of_an_embedded_server() -> None:
    """A port that is chosen, released and bound again could belong to another user's server in between."""
    with _listen_at(0) as mine, socket.socket() as other:
        port = mine.getsockname()[1]
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        mine.listen()
        with pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))


def test_runs_of_other_machines_and_users_are_not_ended() -> None:
    """A database may be shared; a worker records `host:pid` of each run's process."""
    here = socket.gethostname()
    runs = {
        f"{here}:{os.getpid()}": True,
        f"elsewhere:{os.getpid()}": False,
        None: True,
    }
    assert {pid: is_ours(SimpleNamespace(infrastructure_pid=pid)) for pid in runs} == runs  # type: ignore[arg-type]


def test_the_owner_is_stored(tmp_path: Path) -> None:
    owner = up.home_and_database_of({"PREFECT_HOME": str(tmp_path), up.DATABASE: "sqlite:///x"})
    assert json.loads(up.Place(state=tmp_path, out="x", **owner).model_dump_json())["home"] == str(tmp_path)
    assert owner["database"] is not None
