"""A server that is away is waited for; one that answers, with whatever, is not."""

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


def test_patience_ends() -> None:
    asked = []

    def ask() -> None:
        asked.append(1)
        raise httpx.ConnectError("refused")

    with pytest.raises(httpx.ConnectError):
        outlast(ask, patience_s=-1.0, pause_s=0.0)
    assert len(asked) == 1


def test_an_error_that_is_an_answer_is_raised_at_once() -> None:
    asked = []

    def ask() -> None:
        asked.append(1)
        raise ValueError("no such limit")

    with pytest.raises(ValueError, match="no such limit"):
        outlast(ask, pause_s=0.0)
    assert len(asked) == 1
    with pytest.raises(ValueError, match="no such limit"), unless_away():
        ask()


def test_an_outage_is_known_by_what_led_to_an_error() -> None:
    error = RuntimeError("no slot")
    error.__cause__ = httpx.ReadError("reset")
    assert is_outage(error)
    assert not is_outage(RuntimeError("no slot"))
    with unless_away():
        raise httpx.ConnectError("refused")
