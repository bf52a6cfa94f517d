"""The config of nightly runs: all its names exist, and a quarantine ends."""

import shutil
from datetime import date
from pathlib import Path

import pytest

from configs.errors import ConfigError
from configs.nightly import load_nightly
from configs.read import CONFIG_ROOT
from tests.wording.sentences import Wording


@pytest.fixture
def root(tmp_path: Path) -> Path:
    ignore = shutil.ignore_patterns("*.py", "__pycache__")
    return Path(shutil.copytree(CONFIG_ROOT, tmp_path / "configs", ignore=ignore))


def test_our_own_nightly_has_both_comparisons() -> None:
    nightly = load_nightly()
    assert {item.name for item in nightly.comparisons} == {"linen-vs-nnx", "main-vs-branch"}
    assert nightly.slices_of(nightly.target) == 1  # timed runs share no machine
    assert nightly.owner("01_base")


def test_owner_and_quarantine_of_a_case(root: Path) -> None:
    (root / "nightly.yml").write_text(
        "target: cpu\ncomparisons: [{name: linen-vs-nnx}]\nowners: {default: all, 03_dropout: alice}\n"
        "quarantine:\n  - {case: 03_dropout, why: known, until: 2026-11-30}\n"
        "  - {case: 01_base, comparison: linen-vs-nnx, why: this one, until: 2026-11-30}\n"
    )
    nightly = load_nightly(root=root)
    assert (nightly.owner("03_dropout"), nightly.owner("01_base")) == ("alice", "all")
    last, after = date(2026, 11, 30), date(2026, 12, 1)
    assert nightly.quarantined("main-vs-branch", "03_dropout", last) is not None
    assert nightly.quarantined("linen-vs-nnx", "03_dropout", after) is None  # it counts again
    assert nightly.quarantined("linen-vs-nnx", "01_base", last) is not None
    assert nightly.quarantined("main-vs-branch", "01_base", last) is None


def test_every_problem_is_reported_with_its_line(root: Path, wording: Wording) -> None:
    (root / "nightly.yml").write_text(
        "target: cpus\ncomparisons:\n  - {name: linen-vs-nn}\n  - {name: linen-vs-nnx, branch: main}\n"
        "slices: {gqu: 1}\nowners: {dropout: alice}\n"
        "quarantine:\n  - {case: 3_dropout, comparison: linen, why: known, until: 2026-11-30}\n"
    )
    with pytest.raises(ConfigError) as caught:
        load_nightly(root=root)
    reported = "\n".join(caught.value.problems)
    for line, what in (
        (1, "unknown target 'cpus' (did you mean 'cpu'?)"),
        (5, "unknown target 'gqu'"),
        (6, "unknown case 'dropout' (did you mean '03_dropout'?)"),
        (8, "unknown case '3_dropout' (did you mean '03_dropout'?)"),
        (4, "the arms of linen-vs-nnx are no refs"),
        (8, "no comparison 'linen' here (did you mean 'linen-vs-nn"),
    ):
        assert any(f"nightly.yml:{line}: {what}" in problem for problem in caught.value.problems), (
            line,
            what,
            reported,
        )
    assert "unknown comparison 'linen-vs-nn'" in reported
    for problem in caught.value.problems:
        wording("errors", problem.partition("; there are: ")[0], FOLDER=root)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("comparisons: [{name: linen-vs-nnx}]\n", "target is missing"),
        ("target: cpu\ncomparisons: []\n", "at least 1 item"),
        ("target: cpu\ncomparisons: [{name: linen-vs-nnx}, {name: linen-vs-nnx}]\n", "each once"),
        ("target: cpu\ncomparisons: [{name: linen-vs-nnx}]\nslices: {cpu: 0}\n", "greater than or equal to 1"),
        ("target: cpu\ncomparisons: [{name: linen-vs-nnx}]\nslice: {cpu: 1}\n", "did you mean 'slices'?"),
        (
            "target: cpu\ncomparisons: [{name: linen-vs-nnx}]\nquarantine: [{case: 01_base, why: x}]\n",
            "until is missing",
        ),
    ],
)
def test_invalid_files(root: Path, text: str, message: str) -> None:
    (root / "nightly.yml").write_text(text)
    with pytest.raises(ConfigError, match=r"nightly\.yml") as caught:
        load_nightly(root=root)
    assert message in str(caught.value)


def test_an_invalid_name_is_refused_with_the_pattern_of_names(root: Path, wording: Wording) -> None:
    (root / "nightly.yml").write_text("target: cpu\ncomparisons:\n  - {name: a b/c}\n")
    with pytest.raises(ConfigError) as caught:
        load_nightly(root=root)
    reported = caught.value.problems[0]
    assert "nightly.yml:3: comparisons.0.name: " in reported
    assert reported.endswith(", got 'a b/c'")
    wording("errors", reported, FOLDER=root)
