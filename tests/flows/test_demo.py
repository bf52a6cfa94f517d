"""The example site: one command makes it, and it shows the planted changes."""

import subprocess
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from tasks.ingest.example_logs import SUBJECTS
from tasks.publish.site.index import PAGE, parse_index

pytestmark = pytest.mark.flows

type Maxview = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.long
@pytest.mark.by_hand
def test_planted_changes_are_found(maxview: Maxview, tmp_path: Path) -> None:
    made = maxview("site", "demo", "--out", "demo")
    assert made.returncode == 0, made.stderr
    assert f"page: {Path('demo') / PAGE}" in made.stdout
    assert ("no preflight: libtpu is not installed" in made.stdout) is (find_spec("libtpu") is None)
    out = tmp_path / "demo"
    index = parse_index((out / PAGE).read_text())
    assert index is not None
    made_up = [item for item in index.comparisons if item.target == "example"]
    last = {(item.comparison, item.case): item for item in reversed(made_up)}
    assert {key: item.verdict for key, item in last.items() if key[0] == "linen-vs-nnx"} == {
        ("linen-vs-nnx", case): "same" for case in ("01_base", "03_dropout", "16_f32_exact")
    }
    assert last["main-vs-branch", "01_base"].verdict == "improved"  # 6 % faster
    assert last["main-vs-branch", "06_moe"].verdict == "changed"  # another number of parameters
    assert last["main-vs-branch", "16_f32_exact"].verdict == "unknown"  # one pair of equal runs
    assert bool(find_spec("libtpu")) is any(item.target == "v6e-32" for item in index.comparisons)
    (trained,) = [item for item in index.comparisons if item.target == "cpu"]
    assert (trained.comparison, trained.case, trained.verdict) == ("linen-vs-nnx", "01_base", "same")
    assert last["main-vs-branch", "03_dropout"].verdict == "regressed"  # two of three steps wait 20 ms
    assert last["main-vs-branch", "04_int8"].verdict == "regressed"
    assert last["main-vs-branch", "04_int8"].effect == pytest.approx(0.08, abs=0.02)  # 8 % were planted
    assert last["main-vs-branch", "10_shardy_true"].died
    assert len(index.nights) == 7
    history = (out / "history.html").read_text()
    assert "3 changes of level</h1>" in history  # all changes of a case are one entry
    assert SUBJECTS[-1] in history  # the commit between the two nights
    assert SUBJECTS[0] not in history
    again = maxview("site", "demo", "--out", "demo")
    assert again.returncode == 2
    assert "is not empty" in again.stderr
