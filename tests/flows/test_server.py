"""Trouble with Prefect's server: one message with the remedy, exit status 2, no process left."""

import json
import os
import re
import sqlite3
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from uuid import uuid4

import pytest
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Crashed

from tasks.services.flow_runs import HEARTBEAT, is_alive_after_all, life_of
from tasks.services.prefect_settings import SETTINGS
from tasks.services.server import ServerError, check_address, check_api
from tasks.services.set_up import ZOMBIE_AFTER_S

pytestmark = pytest.mark.flows

ROOT = Path(__file__).parent.parent.parent
type Maxview = Callable[..., subprocess.CompletedProcess[str]]

LOG = """\
XPK Start: Sat Apr 18 00:54:24 UTC 2026
completed step: 0, seconds: 1.500, TFLOP/s/device: 1.000, Tokens/s/device: 10.000, total_weights: 8, loss: 3.000
completed step: 1, seconds: 0.500, TFLOP/s/device: 3.000, Tokens/s/device: 30.000, total_weights: 8, loss: 2.500
completed step: 2, seconds: 0.500, TFLOP/s/device: 3.000, Tokens/s/device: 30.000, total_weights: 8, loss: 2.250
XPK End: Sat Apr 18 00:55:24 UTC 2026
EXIT_CODE=0
"""


@pytest.fixture
def logs(tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "a.log").write_text(LOG)
    (tmp_path / "b.log").write_text(LOG.replace("00:55:24", "00:55:25"))  # two copies of one log are not a comparison
    return "a.log", "b.log"


@pytest.mark.long
def test_commands_in_a_new_home_reuse_the_database_and_the_server(
    maxview: Maxview,
    start: Callable[..., "subprocess.Popen[str]"],
    logs: tuple[str, str],
    clean_environment: dict[str, str],
    tmp_path: Path,
) -> None:
    """Two simultaneous commands create one database and one server, without settings; a third finds that server."""
    home = tmp_path / "home"
    environment = clean_environment | {"PREFECT_HOME": str(home), "PYTHONPATH": str(ROOT), "COLUMNS": "100"}
    words = ["ingest", *logs, "--json", "--out"]
    said = []
    for process in [start(*words, name, environment=environment) for name in ("one", "other")]:
        output, errors = process.communicate(timeout=300)  # no remaining process holds its pipes open
        # two logs without a commit: nothing regressed, and one run is no evidence about speed
        assert process.returncode == 3, errors
        said.append(output)
    (left,) = (home / "maxview").glob("*.json")
    server = left.read_text()
    said.append(maxview(*words, "third", environment=environment).stdout)
    assert left.read_text() == server
    rows, *others = (json.loads(output)[0]["rows"] for output in said)
    assert [row["difference_text"] for row in rows if row["metric"] == "final_loss"] == ["0"]
    for other in others:
        assert [row["difference_text"] for row in other] == [row["difference_text"] for row in rows]
    assert maxview("down", environment=environment).stderr == "embedded server: ended\n"  # all used one server
    # it has stored every task run before
    with closing(sqlite3.connect(home / "prefect.db")) as database:
        runs = database.execute("select state_type, count(*) from task_run group by 1").fetchall()
        assert runs == [("COMPLETED", 3 * 2)]  # scrape, publish
        assert database.execute("select count(*) from flow_run where state_name = 'Unknown'").fetchall() == [(3,)]


def test_the_recorder_of_task_runs_never_spins() -> None:
    # Prefect truncates the interval to whole seconds; with 0 it never sleeps
    assert int(SETTINGS["PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL"]) >= 1
    pyproject = tomllib.loads((Path(__file__).parent.parent.parent / "pyproject.toml").read_text())
    recorder = pyproject["tool"]["prefect"]["server"]["services"]["task_run_recorder"]
    assert int(recorder["flush_interval"]) >= 1


@pytest.mark.parametrize("where", ["the command line", "the repository, as a worker"])
def test_heartbeats_are_more_frequent_than_their_time_limit(where: str, tmp_path: Path) -> None:
    # with Prefect's 180 s, a command on the server of `maxview up` was called Crashed after 90 s and lost its job
    own = "from tasks.services.prefect_settings import set_defaults; set_defaults()"
    prepare = own if where == "the command line" else ""
    ask = "from prefect.settings import get_current_settings as s; print(s().flows.heartbeat_frequency)"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    beats = subprocess.run(
        [sys.executable, "-c", f"{prepare}\n{ask}"],
        cwd=tmp_path if prepare else ROOT,
        env=environment | {"PREFECT_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert 3 * int(beats.stdout) <= ZOMBIE_AFTER_S


def test_a_run_with_a_heartbeat_is_not_over(prefect_server: str) -> None:
    """A server that was away for longer than the limit of heartbeats calls the run Crashed once it is back."""
    given_up = Crashed(message="no heartbeat")
    with temporary_settings({PREFECT_API_URL: prefect_server}), get_client(sync_client=True) as client:
        lives, lost = (client.create_flow_run(flow(lambda: None, name="given up"), state=given_up) for _ in range(2))
        for run, seconds in ((lost, -30), (lives, 5)):
            beat = {
                "id": str(uuid4()),
                "event": HEARTBEAT,
                "resource": {"prefect.resource.id": f"prefect.flow-run.{run.id}"},
                "occurred": (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(),
            }
            client.request("POST", "/events", json=[beat])
        deadline = time.monotonic() + 60  # events are stored in batches
        while not is_alive_after_all(str(lives.id)) and time.monotonic() < deadline:
            time.sleep(1)
        assert (life_of(str(lives.id)), life_of(str(lost.id))) == ("running", "over")
        assert not is_alive_after_all(str(lost.id))


def test_a_change_without_a_better_side_is_shown_like_a_regression(
    maxview: Maxview, logs: tuple[str, str], prefect_server: str, tmp_path: Path
) -> None:
    """Its flow run ends in another state, and the command does not fail either."""
    for name, count in zip(logs, ("1.104", "1.105"), strict=True):
        path = tmp_path / name
        line = f"number parameters: {count} billion\ncompleted step: 0"
        path.write_text(path.read_text().replace("completed step: 0", line))
    result = maxview("ingest", *logs)
    assert result.returncode == 1, result.stderr
    assert re.search(r"Parameters .*1\.104 billion .*1\.105 billion .*changed", result.stdout), result.stdout


@pytest.mark.long
def test_the_address_of_a_profile_does_not_answer(
    maxview: Maxview, logs: tuple[str, str], clean_environment: dict[str, str], closed_port: int, tmp_path: Path
) -> None:
    url = f"http://127.0.0.1:{closed_port}/api"
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "profiles.toml").write_text(f'active = "ours"\n[profiles.ours]\nPREFECT_API_URL = "{url}"\n')
    environment = clean_environment | {"PREFECT_HOME": str(tmp_path / "home")}
    result = maxview("ingest", *logs, environment=environment)
    assert (result.returncode, f"no Prefect server answers at {url}" in result.stderr) == (2, True), result.stderr
    assert "prefect server start" in result.stderr
    assert "Traceback" not in result.stderr
    assert maxview("down", environment=environment).stderr != "embedded server: ended\n"  # no process was left


class Other(BaseHTTPRequestHandler):
    """A server that is not Prefect; `server.answers` has a response for each path."""

    def do_GET(self) -> None:
        part = "health" if self.path.endswith("/health") else "rest"
        status, body = self.server.answers[part]  # type: ignore[attr-defined]
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(
    ("health", "rest", "message"),
    [
        ((200, b"<html>log in</html>"), (200, b""), "is no Prefect server: start one"),
        ((200, b"{}"), (200, b""), "is no Prefect server: start one"),
        ((404, b""), (404, b""), "404 Not Found"),
        ((302, b""), (302, b""), "302 Found"),
        ((200, b"true"), (200, b"{}"), "is no Prefect server (ValidationError)"),
        ((200, b"true"), (401, b"{}"), "needs a login (status 401): set PREFECT_API_AUTH_STRING"),
    ],
)
def test_another_program_answers_at_the_address(
    health: tuple[int, bytes], rest: tuple[int, bytes], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Other) as server:
        server.answers = {"health": health, "rest": rest}  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/api"
        with temporary_settings({PREFECT_API_URL: url}), pytest.raises(ServerError) as error:
            check_api(url)
        server.shutdown()
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("url", ["not a url", "http://", "http://[::1", "http://127.0.0.1:99999/api", "ftp://x/api"])
def test_an_invalid_address(
    url: str, maxview: Maxview, logs: tuple[str, str], user_environment: dict[str, str]
) -> None:
    with pytest.raises(ServerError, match=f"PREFECT_API_URL is '{re.escape(url)}', which is no address"):
        check_address(url)
    if url == "http://[::1":  # Prefect itself would print a traceback
        result = maxview("ingest", *logs, environment=user_environment | {"PREFECT_API_URL": url})
        assert (result.returncode, len(result.stderr.splitlines())) == (2, 1)


@pytest.mark.long
@pytest.mark.parametrize("trouble", ["home under a file", "damaged database"])
def test_the_embedded_server_cannot_start(
    maxview: Maxview, logs: tuple[str, str], clean_environment: dict[str, str], tmp_path: Path, trouble: str
) -> None:
    home = tmp_path / "home"
    if trouble == "home under a file":
        home.write_text("not a folder")
        home = home / "prefect"
    else:
        home.mkdir()
        (home / "prefect.db").write_bytes(os.urandom(8192))
    result = maxview("ingest", *logs, environment=clean_environment | {"PREFECT_HOME": str(home)})
    assert result.returncode == 2
    assert "embedded server ended while starting" in result.stderr
    if trouble == "damaged database":
        assert "sqlite3" in result.stderr
        assert f"Its folder is {home}: move its prefect.db away" in result.stderr
    else:
        assert f"{home}, Prefect's home, " in result.stderr
    assert "PREFECT_HOME" in result.stderr
    assert "Traceback" not in result.stderr
    assert not list((tmp_path / "maxview-out").rglob("*.json"))
