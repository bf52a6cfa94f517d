"""What a cell of a night tells reaches whoever started the night."""

import inspect
from typing import Any

from flows.nightly import CellReport
from tasks.services.report import Report


def test_a_cell_passes_on_all_that_it_does_not_keep() -> None:
    told: list[tuple[str, tuple[Any, ...]]] = []

    class Outer(Report):
        def __getattribute__(self, name: str) -> Any:
            return lambda *words: told.append((name, words))

    cell = CellReport(Outer())
    # as a flow calls them; a word that a report learns later is among them
    words = [name for name, _ in inspect.getmembers(Report, inspect.isfunction)]
    assert {"waits", "extended", "troubled"} < set(words)
    for name in words:
        if name != "compared":
            count = len(inspect.signature(getattr(Report, name)).parameters) - 1
            getattr(cell, name)(*range(count))
            assert told.pop() == (name, tuple(range(count)))
