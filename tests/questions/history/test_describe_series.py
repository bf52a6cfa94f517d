"""The surfaces of the history: the command's table, JSON and page."""

import json
import re
import shlex
from collections.abc import Callable

import pytest

from flows.cli.app import call_command
from questions.history.command import parse_since
from questions.history.describe_series import draw_trend
from questions.history.history_table import append_comparison
from tasks.records.compared_case import ComparisonRecord
from tasks.store.store import Store
from tests.wording.sentences import Wording, line_with

pytestmark = pytest.mark.long

type Night = Callable[..., ComparisonRecord]

MOOD = (0.0, 0.004, -0.003, 0.002, -0.005, 0.003, -0.001, 0.005, -0.002, 0.001)  # of the machine, night by night


def write_nights(store: Store, night: Night, *, slower: str, target: str = "cpu") -> None:
    """Twenty nights, 20 % slower from the eleventh on: both arms, or one."""
    for day in range(1, 21):
        factor = 1.2 if day > 10 else 1.0
        noise, other = 1 + MOOD[day % 10], 1 + MOOD[(3 * day + 4) % 10] / 4
        record = night(
            day,
            seconds=0.1 * noise * (factor if slower in ("both", "linen") else 1.0),
            candidate_s=0.1 * noise * other * (factor if slower in ("both", "nnx") else 1.0),
            commit=f"{day:07x}",
        )
        append_comparison(record.replace(target=target), store)


def run(store: Store, *words: str) -> int:
    return call_command(["history", "--out", str(store.path), *words])


def test_a_change_of_the_candidate_is_shown_with_its_commits(
    store: Store,
    night: Night,
    capsys: pytest.CaptureFixture[str],
    wording: Wording,
) -> None:
    write_nights(store, night, slower="nnx")
    assert run(store, "01_base", "--metric", "step_time_s") == 0
    shown = capsys.readouterr().out
    assert "2026-11-11: nnx / linen 1" in shown
    assert "Step time, typical, s" in shown  # its title, not its name
    assert "step_time_s" not in shown
    assert "between 000000a and 000000b" in shown
    assert shown.count("2026-11-11") == 1  # one sentence per change
    wording("reasons", line_with(shown, "000000a and 000000b"))
    assert "+20." in shown or "+19." in shown
    assert "▁" in shown
    assert "█" in shown
    assert (
        "next: maxview compare main-vs-branch --case 01_base --target cpu --baseline 000000a --branch 000000b" in shown
    )
    assert f"page: {store.path / 'history.html'}" in shown


def test_after_runs_of_an_unknown_machine_only_the_changed_series_is_suggested(
    store: Store, night: Night, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its runs cannot be repeated on this machine."""
    write_nights(store, night, slower="nnx", target="as logged")
    assert run(store) == 0
    _, _, command = capsys.readouterr().out.rpartition("\nnext: ")
    program, *words = shlex.split(command)
    assert (program, words[:2]) == ("maxview", ["history", "01_base"])
    assert call_command(words) == 0
    assert re.search(r"nnx moved against linen: .* nnx$", capsys.readouterr().out, re.MULTILINE)


def test_a_change_of_the_machine_is_told(store: Store, night: Night, capsys: pytest.CaptureFixture[str]) -> None:
    write_nights(store, night, slower="both")
    assert run(store, "--metric", "step_time_s") == 0
    assert "not your branch" in capsys.readouterr().out


def test_the_json_agrees_with_the_table(store: Store, night: Night, capsys: pytest.CaptureFixture[str]) -> None:
    write_nights(store, night, slower="nnx")
    assert run(store, "--metric", "step_time_s", "--json") == 0
    (series,) = json.loads(capsys.readouterr().out)
    assert len(series["nights"]) == 20
    (event,) = [event for event in series["events"] if event["line"] == "ratio"]
    assert event["commits"]["candidate"] == ["000000a", "000000b"]
    assert event["low"] < 0.2 < event["high"]
    assert event["cause"] == "candidate"
    assert event["worse"] is True


def test_few_nights_are_unknown(
    store: Store, night: Night, capsys: pytest.CaptureFixture[str], wording: Wording
) -> None:
    append_comparison(night(1), store)
    assert run(store, "--metric", "step_time_s") == 0
    wording("reasons", line_with(capsys.readouterr().out, "1 night: "))


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (("99_none",), "the history has nothing for 99_none; cases: 01_base"),
        (("--metric", "speed"), "metrics: avg_step_time_s"),
        (("--since", "yesterday"), "give 2026-11-01, 12h, 30d or 8w"),
    ],
)
def test_unknown_names_are_answered_with_the_known_ones(
    store: Store, night: Night, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], reported: str
) -> None:
    append_comparison(night(1), store)
    assert run(store, *words) == 2
    assert reported in " ".join(capsys.readouterr().err.split())


def test_an_empty_history_says_how_to_fill_it(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(store) == 2
    assert "maxview history --rebuild" in capsys.readouterr().err


def test_many_files_are_compacted(store: Store, night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    for day in (1, 2):
        append_comparison(night(day), store)
    assert run(store, "--metric", "step_time_s") == 0
    assert len(list(store.files.entries("history"))) == 2
    monkeypatch.setattr("questions.history.history_table.MANY", 2)
    assert run(store, "--metric", "step_time_s") == 0
    assert [entry.name.split("/")[1] for entry in store.files.entries("history")] == ["compacted"]


def test_since() -> None:
    assert parse_since("2026-11-01").isoformat() == "2026-11-01T00:00:00+00:00"
    assert parse_since("2d") < parse_since("24h") < parse_since("2h")


def test_bars_show_the_shape() -> None:
    assert draw_trend([]) == ""
    assert draw_trend([1.0, 1.0, 1.0]) == "▄▄▄"
    assert draw_trend([0.0, 3.5, 7.0]) == "▁▅█"
    assert len(draw_trend([float(n) for n in range(100)])) == 30


def test_the_page_holds_hostile_names_as_text(store: Store, night: Night) -> None:
    hostile = "</script><script>window.owned=1</script>{{ 7*7 }}"
    record = night(1)
    arm = record.candidate.replace(name=hostile)
    runs = [store.run_of_log(log).read_record() for log in record.candidate.logs]
    for run_record in runs:
        assert run_record is not None
        store.run_of_log(run_record.log).write_record(run_record.replace(arm=hostile))
    append_comparison(record.replace(candidate=arm, target=hostile), store)
    assert run(store) == 0
    page = (store.path / "history.html").read_text()
    assert "<script>window.owned" not in page
    assert "</script><script>window" not in page  # two scripts of the template follow each other
