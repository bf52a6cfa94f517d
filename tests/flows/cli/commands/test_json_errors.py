"""An error with `--json`."""

import json

import pytest

from flows.cli.app import call_command


def test_an_error_is_json_for_programs(capfd: pytest.CaptureFixture[str]) -> None:
    assert call_command(["ingest", "--json", "no.log", "other.log"]) == 2
    told = capfd.readouterr()
    assert told.out == ""
    error = json.loads(told.err.splitlines()[-1])
    assert error["exit_status"] == 2
    assert "no.log" in error["error"]
