"""A Prefect server that fails in the middle of a flow run is one sentence with a remedy."""

from types import SimpleNamespace

import httpx
import pytest
from prefect.exceptions import PrefectHTTPStatusError

from tasks.services.server import explain_failure
from tests.wording.sentences import Wording

pytestmark = pytest.mark.flows


def failure(status: int) -> PrefectHTTPStatusError:
    request = httpx.Request("POST", "http://127.0.0.1:4200/api/flow_runs/1/set_state")
    response = httpx.Response(status, request=request)
    return PrefectHTTPStatusError("long", request=request, response=response)


def test_a_full_disk_under_its_home_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(total=10**9, used=10**9, free=0))
    said = explain_failure(failure(500))
    assert said is not None
    assert "(status 500 for /api/flow_runs/1/set_state): " in said
    assert said.endswith("(PREFECT_HOME)")


def test_other_failures_and_refusals(wording: Wording) -> None:
    said = explain_failure(failure(503))
    assert said is not None
    assert "status 503" in said
    wording("errors", said)
    assert explain_failure(failure(404)) is None
    assert explain_failure(ValueError("x")) is None
