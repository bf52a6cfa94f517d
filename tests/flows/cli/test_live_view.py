"""The live view of a comparison."""

import io
import sys
from pathlib import Path

import pytest
from rich.console import Console

from flows.cli.byte_progress import open_stderr
from flows.cli.live_view import LiveView
from tasks.records.plan import RunPlan
from tasks.resolve.plans import Request, resolve
from tasks.services.events import Planned, Reused, Troubled

HEIGHT = 8


def see(view: LiveView) -> list[str]:
    """Return the view as a screen shows it: lines below the screen's height are cut off."""
    screen = Console(file=io.StringIO(), width=view.console.width)
    with screen.capture() as frame:
        screen.print(view._progress.get_renderable())
    lines = frame.get().splitlines()
    return lines if len(lines) <= HEIGHT else lines[: HEIGHT - 1]


def plans_of(cases: tuple[str, ...], out: Path) -> list[RunPlan]:
    return resolve(Request(comparison="linen-vs-nnx", cases=cases), out)


def test_running_cases_are_visible_however_many_have_finished(tmp_path: Path) -> None:
    cases = ("01_base", "02_remat", "03_dropout", "05_grad_accum", "09_scan_layers_false", "13_eval")
    plans = plans_of(cases, tmp_path)
    assert len(plans) == 12 > HEIGHT
    console = Console(file=io.StringIO(), force_terminal=True, height=HEIGHT, width=100)
    with LiveView(console) as view:
        view.show(Planned(plans))
        for plan in plans[:10]:
            view.show(Reused(plan))
        shown = "\n".join(see(view))
        assert "13_eval linen" in shown
        assert "13_eval nnx" in shown
        assert "01_base" not in shown  # is over, and the screen is full
        assert "09_scan_layers_false nnx" in shown  # is over, and there is room for it
    last = console.file.getvalue().rpartition("01_base linen")  # type: ignore[attr-defined]
    assert "13_eval nnx" in last[2]  # the final view has every run


def test_a_long_log_that_is_read_replaces_the_wait_for_the_server() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, height=HEIGHT, width=100)
    with LiveView(console) as view:
        assert "starting Prefect" in "\n".join(see(view))
        view.show_read("long.log", 1 << 30, 4 << 30)
        shown = "\n".join(see(view))
    assert "reading long.log" in shown
    assert "1024/4096 MiB" in shown
    assert "starting Prefect" not in shown


def test_a_pipe_gets_no_redraws_even_if_colours_are_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # as in CI
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    with LiveView(open_stderr()) as view:
        view.show(Troubled("one event"))
    assert pipe.getvalue() == "one event\n"
