"""Requests are retried while the server is unreachable, and not after an error response."""

import httpx
import pytest

from tasks.services.outage import is_outage, outlast, unless_away


def away(times: int, error: Exception) -> list[Exception]:
    return [error] * times


def test_a_server_that_comes_back_is_waited_for() -> None:
    left = away(3, httpx.ConnectError("refused"))

    def ask() -> str:
        if left:
            raise left.pop()
        return "answer"

    assert outlast(ask, pause_s=0.0) == "answer"


def test_the_error_is_raised_after_the_longest_outage() -> None:
    asked = []

    def ask() -> None:
        asked.append(1)
        raise httpx.ConnectError("refused")

    with pytest.raises(httpx.ConnectError):
        outlast(ask, patience_s=-1.0, pause_s=0.0)
    assert len(asked) == 1


def test_an_error_response_is_raised_at_once() -> None:
    asked = []

    def ask() -> None:
        asked.append(1)
        raise ValueError("no such limit")

    with pytest.raises(ValueError, match="no such limit"):
        outlast(ask, pause_s=0.0)
    assert len(asked) == 1
    with pytest.raises(ValueError, match="no such limit"), unless_away():
        ask()


def test_an_outage_is_recognised_by_an_errors_cause() -> None:
    error = RuntimeError("no slot")
    error.__cause__ = httpx.ReadError("reset")
    assert is_outage(error)
    assert not is_outage(RuntimeError("no slot"))
    with unless_away():
        raise httpx.ConnectError("refused")
