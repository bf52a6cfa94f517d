"""The example site: what was planted is found, and everything is made by one command."""

from pathlib import Path

import pytest

from flows.cli.app import call
from tasks.publish.index import PAGE, parse_index


@pytest.mark.long
def test_what_was_planted_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "demo"
    assert call(["site", "demo", "--out", str(out)]) == 0
    assert f"page: {out / PAGE}" in capsys.readouterr().out
    index = parse_index((out / PAGE).read_text())
    assert index is not None
    last = {(item.comparison, item.case): item for item in reversed(index.comparisons)}
    assert {key: item.verdict for key, item in last.items() if item.comparison == "linen-vs-nnx"} == {
        ("linen-vs-nnx", case): "same" for case in ("01_base", "03_dropout", "16_f32_exact")
    }
    assert last["main-vs-branch", "04_int8"].verdict == "regressed"
    assert last["main-vs-branch", "04_int8"].ratio == pytest.approx(1.08, abs=0.02)  # 8 % were planted
    assert last["main-vs-branch", "10_shardy_true"].died
    assert len(index.nights) == 5
    assert "04_int8 · step_time_s" in (out / "history.html").read_text()
    assert call(["site", "demo", "--out", str(out)]) == 2
    assert "is not empty" in capsys.readouterr().err
