"""`maxview compare … --only`: both steps are recorded and compared; nothing is trained."""

import json
import shutil
import subprocess
from collections.abc import Callable
from itertools import permutations
from pathlib import Path

import pytest

type Maxview = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
SMALL = ("--set", "steps=6", "--set", "max_target_length=32", "--case", "01_base")


@pytest.mark.by_hand  # CI's whole comparisons of one program let its loops take turns, too
def test_only_the_loops_of_one_program_take_turns(maxview: Maxview, tmp_path: Path) -> None:
    done = maxview("compare", "linen-vs-nnx", *SMALL, "--only", "time", "--out", "o", "--interleave", "20s", "--json")
    assert done.returncode in (0, 3), done.stderr  # beside other work, two loops may stay open
    (record,) = json.loads(done.stdout)
    assert record["verdict"] in ("same", "unknown")
    assert record["turns"] is None
    assert record["loops"]["steps"] > 6  # the command's; the loops run on
    rows = {row["title"]: row for row in record["rows"]}
    times = ["Step time of the program", "Step time", "Step time of the host"]
    assert list(rows) == [*times, "First weights and batch"]
    assert rows["Step time of the program"]["verdict"] == "same"
    assert "nothing was trained" in record["headline"]
    assert not [*(tmp_path / "o").glob("runs/*/record.json")]


NORM = "wide * jax.lax.rsqrt(mean_square + epsilon)"
ROUNDS, CHANGES = "wide / jnp.sqrt(mean_square + epsilon)", "wide * jax.lax.rsqrt(mean_square + 0.1 * epsilon)"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone of the trainer with the branches `rounds` and `changes`, which edit the norm."""
    folder = tmp_path / "clone"
    for package in ("configs", "model"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    layers = folder / "model" / "decoder" / "layers.py"
    text = layers.read_text()
    assert text.count(NORM) == 1
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "the trainer")
    for branch, norm in (("rounds", ROUNDS), ("changes", CHANGES)):
        git(folder, "checkout", "-q", "-b", branch, "main")
        layers.write_text(text.replace(NORM, norm))
        git(folder, "commit", "-q", "-a", "-m", branch)
    return folder


@pytest.mark.by_hand
def test_another_initializer_is_a_change_though_the_program_is_one(maxview: Maxview, clone: Path) -> None:
    file = clone / "model" / "decoder" / "initializers.py"
    git(clone, "checkout", "-q", "-b", "initializer", "main")
    file.write_text(file.read_text().replace('"query": Normal((0, 2))', '"query": Normal((0,))'))
    git(clone, "commit", "-q", "-a", "-m", "another initializer")
    refs = ("--repository", str(clone), "--baseline", "main", "--branch", "initializer")
    done = maxview("compare", "main-vs-branch", *SMALL, *refs, "--only", "function", "--out", "o", "--json")
    assert done.returncode == 1, done.stderr
    (record,) = json.loads(done.stdout)
    assert record["verdict"] == "changed"
    assert [floor["holds"] for floor in record["floors"]] == [True]
    row = next(row for row in record["rows"] if row["metric"] == "first_call")
    assert row["reason"].endswith("differ: decoder.layers.self_attention.query.kernel")


@pytest.mark.by_hand  # 18 commands: two minutes of the processor
def test_a_page_keeps_words_proofs_and_rounds_in_every_order(maxview: Maxview, clone: Path, tmp_path: Path) -> None:
    """Three commands for one pair; the turns of `--only time` are shorter than those of `--only function,time`.

    Each result is measured once, and given back to the commands of the other orders by the experiments' own files.
    """
    refs = ("--repository", str(clone), "--baseline", "main", "--branch", "rounds", "--out", "o", "--json")
    asked = {"time": ("time", "2s"), "both": ("function,time", "8s"), "function": ("function", "2s")}
    measured: dict[str, dict[Path, bytes]] = {name: {} for name in asked}
    for order in permutations(asked):
        known: set[str] = set()
        rounds, ids = [0], set()
        for name in order:
            for path, data in measured[name].items():
                path.write_bytes(data)
            only, limit = asked[name]
            done = maxview("compare", "main-vs-branch", *SMALL, *refs, "--only", only, "--interleave", limit)
            (record,) = json.loads(done.stdout)
            known |= set(only.split(","))
            ids.add(record["id"])
            assert set(record["asked"]) == known, order
            if "function" in known:
                assert record["function"]["answer"] == "same"
                assert [floor["holds"] for floor in record["floors"] if floor["name"] == "same function"] == [True]
            if "time" in known:
                rounds.append(record["turns"]["rounds"])
            for pattern in ("turns*.json", "function*.json"):
                for path in tmp_path.glob(f"o/comparisons/*/*/*/experiments/{pattern}"):
                    measured[name].setdefault(path, path.read_bytes())
        assert len(ids) == 1
        assert rounds == sorted(rounds), order
        lines = [line for line in record["evidence"] if "turns" in line["what"]]
        # the short turns are measured only before the long ones
        assert len(lines) == 1 + (order.index("time") < order.index("both")), order
        assert sum(line["counts"] for line in lines) == 1
        (page,) = tmp_path.glob("o/comparisons/*/*/*")
        shutil.rmtree(page / "evidence")
        (page / "comparison.json").unlink()


def test_a_branch_that_does_not_run_is_a_death_with_its_line(maxview: Maxview, clone: Path, tmp_path: Path) -> None:
    layers = clone / "model" / "decoder" / "layers.py"
    text = layers.read_text().replace(".astype(dtype)", ".astype(dtpye)", 1)
    line = text[: text.index("dtpye")].count("\n") + 1
    git(clone, "checkout", "-q", "-b", "typo", "main")
    layers.write_text(text)
    git(clone, "commit", "-q", "-a", "-m", "a typo")
    refs = ("--repository", str(clone), "--baseline", "main", "--branch", "typo")
    done = maxview("compare", "main-vs-branch", *SMALL, *refs, "--only", "function", "--out", "o", "--json")
    assert done.returncode == 1, done.stderr
    (record,) = json.loads(done.stdout)
    assert record["verdict"] == "regressed"
    assert [finding["kind"] for finding in record["findings"] if finding["effect"] == "blocks"] == ["died"]
    cause = record["candidate"]["cause_of_death"]
    assert cause["place"] == f"model/decoder/layers.py:{line} in rms_norm"
    assert (cause["type"], record["candidate"]["exit_code"]) == ("NameError", 1)
    (page,) = (tmp_path / "o").glob("comparisons/*/*/*/index.html")
    assert cause["place"] in page.read_text()
    assert "normed = (wide" in page.read_text()  # the last lines of its log
    argv = record["next_step"]["argv"]
    assert argv[argv.index("--only") + 1] == "function"


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@localhost", *words], cwd=folder, check=True)


@pytest.mark.by_hand  # CI asks a typed command for its function, and compares our two APIs
@pytest.mark.parametrize(("branch", "verdict", "status"), [("rounds", "same", 0), ("changes", "changed", 1)])
def test_a_branch_that_rounds_is_the_same_and_a_changed_constant_is_not(
    maxview: Maxview, clone: Path, branch: str, verdict: str, status: int
) -> None:
    refs = ("--repository", str(clone), "--baseline", "main", "--branch", branch)
    done = maxview("compare", "main-vs-branch", *SMALL, *refs, "--only", "function", "--out", "o", "--json")
    assert done.returncode == status, done.stderr
    (record,) = json.loads(done.stdout)
    assert record["verdict"] == verdict
    function = record["function"]
    assert function["answer"] == {"same": "same", "changed": "another"}[verdict]
    assert (function["gap"] < 1e-13) == (verdict == "same")
    assert function["as_run"] > 1e-6  # as run, both differ
    explanation = record["explanation"]
    assert (explanation is not None) == (verdict == "changed")
    if explanation is not None:
        assert explanation["tensors"]["first"]["file"] == "model/decoder/layers.py"
