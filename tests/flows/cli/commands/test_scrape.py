"""`maxview scrape`: several sources, a stream, and a report of the unread parts."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from flows.cli.app import call_command
from tests.wording.sentences import Wording

STEP = "completed step: {n}, seconds: {seconds}, TFLOP/s/device: 91.824, loss: 8.125\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "run.log"
    lines = [STEP.format(n=n, seconds="0.148" if n != 3 else ".148") for n in range(6)]
    path.write_text("XPK Start: Sat Apr 18 00:54:24 UTC 2026\n" + "".join(lines) + "EXIT_CODE=0\n")
    return path


class Input(io.TextIOWrapper):
    """Standard input with some bytes."""


def test_unread_parts_are_reported(log: Path, capsys: pytest.CaptureFixture[str], wording: Wording) -> None:
    assert call_command(["scrape", str(log)]) == 0
    shown = capsys.readouterr()
    assert "line 5: completed step: 3, seconds: .148" in " ".join(shown.out.split())
    warning = " ".join(shown.err.split())
    assert "1 of 6 step lines" in warning
    assert "(line 5)" in warning
    wording("errors", warning)
    assert call_command(["scrape", str(log), "--format", "json"]) == 0
    shown = capsys.readouterr()
    (unread,) = json.loads(shown.out)["runs"][0]["coverage"]["unread"]
    assert (unread["line"], unread["text"][:24]) == (5, "completed step: 3, secon")
    assert "1 of 6 step lines" in shown.err


def test_a_stream_beside_a_file(
    log: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "stdin", Input(io.BytesIO(log.read_bytes().replace(b" .148", b" 0.148"))))
    out: Any = tmp_path / "out.json"
    assert call_command(["scrape", "-", str(log), "--format", "json", "-o", str(out)]) == 0
    runs = json.loads(out.read_text())["runs"]
    assert [(run["name"], len(run["steps"])) for run in runs] == [("standard input", 6), ("run", 5)]
    assert "standard input" not in capsys.readouterr().err


def test_every_mistake_is_reported_at_once(log: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("Dear diary\n")
    assert call_command(["scrape", str(log), str(tmp_path / "gone.log"), str(tmp_path / "notes.txt")]) == 2
    reported = " ".join(capsys.readouterr().err.split())
    assert "gone.log: cannot be read" in reported
    for dialect in ("completed step: 0, seconds: …", "iteration 1/ 20 |", "step: 1 loss: 8.1309", "our own"):
        assert dialect in reported
