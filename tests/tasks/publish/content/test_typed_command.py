"""A command is printed as it works where the present one was typed."""

import pytest

from tasks.publish.content.typed_command import UNDER_UV, as_typed


def test_under_uv_run_a_command_of_maxview_begins_like_the_typed_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(UNDER_UV, raising=False)
    assert as_typed("maxview compare a") == "maxview compare a"
    monkeypatch.setenv(UNDER_UV, "1")
    assert as_typed("maxview compare a") == "uv run maxview compare a"
    assert as_typed("less run.log") == "less run.log"
    assert as_typed("") == ""
