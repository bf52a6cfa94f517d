"""Columns that share memory do not touch each other, whatever was lent and given back between."""

import numpy as np

from tasks.scrape.layout import layout_of
from tasks.scrape.memory import LEAST, SMALL, Memory
from tasks.scrape.rows import read_run
from tasks.scrape.step_line import parse_step
from tasks.scrape.window import Window


def test_what_is_kept_is_not_lent_again() -> None:
    memory, kept = Memory(), []
    for number in range(40):
        lent = memory.lend(SMALL + 8 * number)
        lent[:] = 255
        size = SMALL // 2 + number
        lent[:size] = number
        memory.keep(size)
        kept.append(lent[:size])
    assert all((some == number).all() for number, some in enumerate(kept))
    assert len(memory.lend(2 * LEAST)) == 2 * LEAST


def test_what_was_not_kept_is_lent_again() -> None:
    memory = Memory()
    first, again = memory.lend(SMALL), memory.lend(SMALL)
    assert np.shares_memory(first, again)
    assert not np.shares_memory(again, memory.lend(SMALL - 1))  # a few rows do not keep a piece alive


def test_runs_that_end_early_leave_room_to_those_behind_them() -> None:
    """Each run is given room for all rows up to the window's end, and keeps what it needs."""
    line = "completed step: {}, seconds: 0.148, loss: {:.3f}\n"
    count, runs = 40_000, 4
    rows = [line.format(10_000 + n, n % 10_000 / 1000) for n in range(count)]
    for run in range(1, runs):
        rows[run * count // runs] = "another line\n"
    data = "".join(rows).encode()
    first = parse_step(data, 0, last=False, before=None)
    layout = layout_of(data, first) if first else None
    assert layout is not None
    window = Window(data, base=0, line=1, start=0, limit=len(data), last=True)
    memory, found, position = Memory(), [], 0
    for _ in range(runs):
        found.append(read_run(window, layout, position, 1, memory))
        position = data.find(b"completed", int(found[-1].end[-1]))
    assert found[0].step.base is found[1].step.base  # one piece for both
    expected = [n for n in range(count) if n % (count // runs) or not n]
    assert [step - 10_000 for run in found for step in run.step.tolist()] == expected
    assert [loss for run in found for loss in run.values["loss"].tolist()] == [n % 10_000 / 1000 for n in expected]
