"""`--take-over` on the command line reaches every turn that a comparison waits for."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flows import runs
from flows.cli.app import call
from tasks.services.events import Events
from tasks.services.running_jobs import Jobs
from tasks.store import Store


@pytest.mark.parametrize("said", [True, False])
def test_a_turn_is_taken_over_only_where_it_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: bool
) -> None:
    asked = []

    @contextmanager
    def turn(*_: Any, take_over: bool, **__: Any) -> Iterator[str]:
        asked.append(take_over)
        yield "finished meanwhile"

    @contextmanager
    def slice_of(_: str) -> Iterator[None]:
        yield

    monkeypatch.setattr(runs, "turn_of", turn)
    monkeypatch.setattr(runs, "slice_of", slice_of)
    monkeypatch.setattr(runs, "flow_run", SimpleNamespace(id="one"))
    plans: list[Any] = [SimpleNamespace(run_name=f"{arm}-run", target="cpu") for arm in "ab"]
    records: list[Any] = list(runs.run_all(plans, Store(tmp_path), Events(), Jobs(), take_over=said))
    assert records == ["finished meanwhile"] * 2
    assert asked == [said, said]


@pytest.mark.parametrize("words", [["--take-over"], []])
def test_the_word_reaches_the_flow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str]) -> None:
    given: dict[str, Any] = {}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("flows.cli.commands.compare.run_flow", lambda _, wanted, **__: given.update(wanted) or 0)
    assert call(["compare", "linen-vs-nnx", *words]) == 0
    assert given["take_over"] is bool(words)
