"""`maxview compare --seeds`: both arms train with several seeds, and their convergence is judged."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.flows

type Maxview = Callable[..., subprocess.CompletedProcess[str]]
SMALL = ("--set", "steps=6", "--set", "max_target_length=32", "--set", "enable_checkpointing=false")


@pytest.mark.by_hand
@pytest.mark.long
def test_both_arms_train_with_each_seed(maxview: Maxview, tmp_path: Path) -> None:
    done = maxview("compare", "linen-vs-nnx", "--seeds", "3", *SMALL, "--out", "o", "--json")
    assert done.returncode == 0, done.stderr
    (record,) = json.loads(done.stdout)
    assert record["verdict"] == "same"
    assert [curve["name"] for curve in record["candidate"]] == ["nnx, seed 0", "nnx, seed 1", "nnx, seed 2"]
    losses = [[curve["losses"][0] for curve in record[side]] for side in ("reference", "candidate")]
    assert len(set(losses[0])) == 3  # each seed has its own first weights and data
    assert losses[0] == pytest.approx(losses[1], abs=0.001)  # three digits are printed; the arms share their start
    page = tmp_path / "o" / "convergence" / "linen-vs-nnx" / "01_base.html"
    assert page.read_text().count('class="run"') == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--seeds", "2"), "--seeds must be 3 to 100, got 2"),
        (("--seeds", "5", "--only", "function"), "--seeds trains once with each seed, which --only contradicts"),
        (("--target-loss", "3"), "--target-loss belongs to --seeds"),
    ],
)
def test_seeds_that_cannot_be_trained_are_one_sentence(
    words: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from flows.cli.app import call_command

    assert call_command(["compare", "linen-vs-nnx", *words, "--out", str(tmp_path / "o")]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
