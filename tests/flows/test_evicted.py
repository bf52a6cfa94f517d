"""The end of a flow's process: its job ends with it, unless the flow run goes on in another pod, with the job."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from prefect.exceptions import TerminationSignal
from prefect.states import AwaitingRetry, Cancelling, Running, State

from flows import runs as module
from tasks.launch.owners import own
from tasks.services import flow_runs
from tasks.services.events import Events
from tasks.services.running_jobs import Jobs, Stopped
from tasks.store import Store

FLOW_RUN = "8f0f8a1e-54a5-4bb1-9d8d-1c6d0f1c5d55"


@pytest.mark.parametrize(
    ("backend", "queued", "ends"),
    [
        ("xpk", set(), True),
        ("xpk", {"night"}, False),
        ("xpk", {"cell"}, False),
        ("local", {"cell"}, True),  # in the same pod: told to end, it saves
    ],
)
def test_a_job_is_left_to_whoever_goes_on_with_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, backend: str, queued: set[str], ends: bool
) -> None:
    handle, stopped = SimpleNamespace(job_name="a-job"), []

    def launch(plan: Any, directory: Any, continue_from: Any, owners: tuple[str, ...], store: Store) -> Any:
        own(plan.run_name, owners, store)
        return handle

    def watch(*_: Any) -> Iterator[Any]:
        yield "a step"
        raise TerminationSignal(signal.SIGTERM)

    monkeypatch.setattr(module, "flow_run", SimpleNamespace(id="cell"))
    monkeypatch.setattr(module, "launch_step", launch)
    monkeypatch.setattr(module, "watch_step", watch)
    monkeypatch.setattr(module, "goes_on", queued.__contains__)
    monkeypatch.setattr(module, "get_run_logger", lambda: SimpleNamespace(info=lambda *_: None))
    monkeypatch.setattr(module.job, "stop", stopped.append)
    plan: Any = SimpleNamespace(run_name="a-run", backend=backend)
    with pytest.raises(TerminationSignal):
        module.run_one(plan, Store(tmp_path), Events(), jobs=Jobs("night"), continue_from=None)
    assert stopped == ([handle] if ends else [])


def test_a_nights_jobs_are_left_and_its_cells_still_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The signal reaches the night's own thread; a cell's learns of it at its job's next step."""
    jobs, stopped = Jobs("night"), []

    def watch(*_: Any) -> Iterator[Any]:
        jobs.stop_all()
        yield "a step"
        pytest.fail("nobody looks at the job any more")

    monkeypatch.setattr(module, "flow_run", SimpleNamespace(id="cell"))
    monkeypatch.setattr(module, "launch_step", lambda *_: SimpleNamespace(job_name="a-job"))
    monkeypatch.setattr(module, "is_owned", lambda *_: True)
    monkeypatch.setattr(module, "watch_step", watch)
    monkeypatch.setattr(module, "goes_on", {"night"}.__contains__)
    monkeypatch.setattr(module, "get_run_logger", lambda: SimpleNamespace(info=lambda *_: None))
    monkeypatch.setattr(module.job, "stop", stopped.append)
    plan: Any = SimpleNamespace(run_name="a-run", backend="xpk")
    with pytest.raises(Stopped):
        module.run_one(plan, Store(tmp_path), Events(), jobs=jobs, continue_from=None)
    assert stopped == []


@pytest.mark.parametrize(
    ("behaviour", "state", "expected"),
    [
        ("reschedule", AwaitingRetry(), True),
        ("reschedule", Cancelling(), False),
        ("reschedule", Running(), False),  # an error of ours, in a pod
        ("reschedule", None, False),  # the server is away: nothing is left behind
        ("", AwaitingRetry(), False),  # a worker that starts processes
    ],
)
def test_a_flow_run_goes_on_that_was_put_back_into_the_queue(
    monkeypatch: pytest.MonkeyPatch, behaviour: str, state: State[Any] | None, expected: bool
) -> None:
    class Client:
        def read_flow_run(self, flow_run: Any) -> Any:
            if state is None:
                raise httpx.ConnectError("nobody listens")
            return SimpleNamespace(state=state)

    @contextmanager
    def client(**_: Any) -> Iterator[Client]:
        yield Client()

    monkeypatch.setenv("PREFECT_FLOW_RUN_EXECUTE_SIGTERM_BEHAVIOR", behaviour)
    monkeypatch.setattr(flow_runs, "get_client", client)
    assert flow_runs.goes_on(FLOW_RUN) is expected
