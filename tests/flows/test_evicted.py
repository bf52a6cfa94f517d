"""At the end of a flow's process its job ends too, unless the flow run continues in another pod."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import AwaitingRetry, Cancelling, Running, State

from flows.compare import run_one
from tasks.launch.owners import find_heir, own
from tasks.resolve.plans import Request, resolve
from tasks.services import flow_runs
from tasks.services.events import EVENTS, Event, Logged
from tasks.services.running_jobs import Jobs
from tasks.store.store import Store
from tests.standins.replay import write_python

pytestmark = pytest.mark.flows

STEPS = "".join(
    f"completed step: {step}, seconds: 1.000, TFLOP/s/device: 1.000, Tokens/s/device: 8.000, loss: 3.000\n"
    for step in range(60)
)


@pytest.mark.parametrize(
    ("backend", "owner", "queued", "left"),
    [
        ("xpk", "cell", set(), False),
        ("xpk", "cell", {"night"}, True),
        ("xpk", "cell", {"cell"}, True),
        ("local", "cell", {"cell"}, False),  # in the same pod: it saves at SIGTERM
        ("local", "later", set(), True),
    ],
)
def test_a_job_is_left_running_if_another_pod_continues_the_flow(
    tmp_path: Path, backend: str, owner: str, queued: set[str], left: bool
) -> None:
    plan: Any = SimpleNamespace(run_name="a-run", backend=backend)
    own("a-run", (owner,), Store(tmp_path))
    assert bool(find_heir(plan, ("cell", "night"), Store(tmp_path), is_rescheduled=queued.__contains__)) is left


def test_a_cell_ends_its_job_with_its_night_and_stops_following_it(
    prefect_server: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    processes_of: Callable[[Path], list[psutil.Process]],
) -> None:
    """The signal reaches the night's own thread; a cell's thread learns of it at its job's next step."""
    for arm in ("linen", "nnx"):
        (tmp_path / f"{arm}.txt").write_text("XPK Start: Sat Apr 18 00:54:24 UTC 2026\n" + STEPS)
    python = write_python(tmp_path / "python", tmp_path, speed=1)
    store, jobs = Store(tmp_path / "out"), Jobs("night")
    arms = {"software": (f"linen:{python}", f"nnx:{python}")}
    plan, _ = resolve(Request(comparison="linen-vs-nnx", arms=arms), store.path)
    heard: list[Event] = []

    def hear(event: Event) -> None:
        heard.append(event)
        if isinstance(event, Logged):
            assert processes_of(store.path)
            jobs.stop_all()

    @flow
    def cell() -> None:
        run_one(plan, store, jobs, among=[plan])

    with temporary_settings({PREFECT_API_URL: prefect_server}), EVENTS.heard_by(hear):
        state = cell(return_state=True)
    assert state.message is not None
    assert "Stopped: " in state.message
    assert [type(event).__name__ for event in heard] == ["Launched", "Logged", "Stopping"]
    assert not processes_of(store.path)


@pytest.mark.parametrize(
    ("behaviour", "state", "expected"),
    [
        ("reschedule", AwaitingRetry(), True),
        ("reschedule", Cancelling(), False),
        ("reschedule", Running(), False),  # our own error, in a pod
        ("", AwaitingRetry(), False),  # a worker that starts processes
    ],
)
def test_a_rescheduled_flow_run_continues(
    prefect_server: str, monkeypatch: pytest.MonkeyPatch, behaviour: str, state: State[Any], expected: bool
) -> None:
    monkeypatch.setenv("PREFECT_FLOW_RUN_EXECUTE_SIGTERM_BEHAVIOR", behaviour)
    with temporary_settings({PREFECT_API_URL: prefect_server}), get_client(sync_client=True) as client:
        run = client.create_flow_run(flow(lambda: None, name="evicted"), state=state)
        assert flow_runs.is_rescheduled(str(run.id)) is expected


def test_jobs_are_ended_if_the_server_is_unreachable(monkeypatch: pytest.MonkeyPatch, closed_port: int) -> None:
    monkeypatch.setenv("PREFECT_FLOW_RUN_EXECUTE_SIGTERM_BEHAVIOR", "reschedule")
    with temporary_settings({PREFECT_API_URL: f"http://127.0.0.1:{closed_port}/api"}):
        assert not flow_runs.is_rescheduled("8f0f8a1e-54a5-4bb1-9d8d-1c6d0f1c5d55")
