"""docs/verdict.md says what the code does: its findings, its tolerances, and its examples worked out by hand."""

import ast
import os
import re
from collections.abc import Callable
from math import log
from pathlib import Path
from statistics import mean, median

import pytest

from configs.comparison import load_effects, load_tolerances
from configs.findings import KINDS
from tasks.diff.decide import LEAST_REPEATS, show_duration
from tasks.diff.decide_noisy import CHANCE, LOOKS, chance_of, show_effect
from tasks.diff.effect import CONFIDENCE, LIGHT_TAILS, WILD, Sample, measure_effect
from tasks.diff.fates import FAR_APART_S
from tasks.diff.levels import QUICK
from tasks.diff.noise import NoisePrior, small_sample
from tasks.ingest import archive, compare_pair, read_pair
from tasks.records import ComparisonRecord
from tasks.store import Store

ROOT = Path(__file__).parents[2]
DOC = (ROOT / "docs" / "verdict.md").read_text(encoding="utf-8")

seeds = pytest.mark.skipif(
    "MAXVIEW_SEEDS" not in os.environ, reason="MAXVIEW_SEEDS does not name the folder of the founding documents"
)


def table_rows(first_column: str) -> list[list[str]]:
    """The cells of the table whose head begins with a text."""
    lines = iter(DOC.splitlines())
    for line in lines:
        if line.startswith(f"| {first_column} |"):
            break
    next(lines)
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def strings_of(node: ast.AST) -> set[str]:
    return {n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)}


def test_the_findings_are_those_of_the_config() -> None:
    told = {kind: effect for kinds, effect, _ in table_rows("finding") for kind in re.findall(r"`([a-z-]+)`", kinds)}
    assert told == load_effects()


def test_every_finding_is_made_somewhere() -> None:
    made = set()
    for path in (ROOT / "tasks" / "diff").glob("*.py"):
        made |= strings_of(ast.parse(path.read_text(encoding="utf-8")))
    assert set(KINDS) <= made


def test_the_tolerances_are_those_of_the_file() -> None:
    told = {}
    for metrics, amount in table_rows("tolerance of"):
        for metric in re.findall(r"`(\w+)`", metrics):
            told[metric] = amount
    given = load_tolerances("default")
    assert set(told) == set(given)
    for metric, tolerance in given.items():
        if tolerance.relative is not None:
            assert told[metric] == f"{100 * tolerance.relative:g} % of the baseline"
        else:
            assert told[metric].split(":")[0] == f"{tolerance.absolute:g}"


def test_the_numbers_of_the_rule_are_those_of_the_code() -> None:
    assert f"r < {LEAST_REPEATS}" in DOC
    assert f"the {100 * QUICK:.0f} % quantile" in DOC
    least = load_tolerances("default")["step_time_s"].least
    assert least is not None
    assert f"the least that is told of ({100 * least:g} %)" in DOC
    assert f"α is {100 * CHANCE:g} % for a whole comparison" in DOC
    assert f"p ≤ α ÷ {LOOKS} →" in DOC
    assert chance_of(look=3) == pytest.approx(CHANCE / (3 * 4))  # 1 ÷ (k (k + 1))
    assert f"its interval that of Student's t at {100 * CONFIDENCE:g} %" in DOC
    for runs, factor, degrees, variance in table_rows("r"):
        small = small_sample(int(runs))
        assert variance == f"{small.location_variance:.2f}" or (runs, variance) == ("1", "1")
        assert degrees == f"{small.df:.1f}" or (runs, degrees) == ("1", "0")
        assert factor == f"{small.scale_factor:.2f}" or (runs, factor) == ("1", "–")


def test_the_third_example_is_what_the_rule_makes_of_its_table() -> None:
    section = DOC[DOC.index("**A candidate that is 5 % slower.**") :]
    _, baseline, candidate, differences = (
        [cell.strip() for cell in line.strip("|").split("|")] for line in re.findall(r"^\|(?!--).*\|$", section, re.M)
    )
    sides = [tuple(float(text) for text in row[1:]) for row in (baseline, candidate)]
    for first, second, shown in zip(*sides, differences[1:], strict=True):
        assert f"{log(second / first):.4f}" == shown
    scale, degrees, pairs = re.findall(r"s₀ = ([\d.]+) % and d₀ = (\d+) from (\d+) pairs", section)[0]
    prior = NoisePrior(scale=float(scale) / 100, df=float(degrees), pairs=int(pairs))
    effect = measure_effect(Sample(baseline=sides[0], candidate=sides[1], prior=prior))
    assert effect is not None
    assert f"s = {100 * effect.scale:.2f} %" in section
    assert f"= {100 * effect.error:.2f} %, with 2 + 14 = {effect.df:.1f} degrees" in section.replace("\n", " ")
    assert f"{effect.estimate:.4f} ± {effect.interval()[1] - effect.estimate:.4f}" in section
    assert show_effect(effect) in section
    assert f"÷ 0.0060 = {effect.estimate / effect.error:.1f}" in section
    assert f"light tails (d₀ ≥ {LIGHT_TAILS:g}) and no d is further than {WILD:g} k s₀" in DOC
    assert f"more than {show_duration(FAR_APART_S)} between the starts" in DOC


@pytest.fixture
def compare(tmp_path: Path) -> Callable[[str], ComparisonRecord]:
    def run(number: str) -> ComparisonRecord:
        (page,) = Path(os.environ["MAXVIEW_SEEDS"]).glob(f"{number}_*.txt")
        pair = read_pair([page])
        return compare_pair(archive(pair, Store(tmp_path)), case=pair.case or "", aa=False)

    return run


@seeds
def test_the_first_example_is_what_the_page_holds(compare: Callable[[str], ComparisonRecord]) -> None:
    record = compare("002")
    section = DOC[DOC.index("**`03_dropout`") : DOC.index("**`11_optimizer")]
    shown = {}
    for line in section.splitlines():
        if line.startswith(("| main", "| branch")):
            shown[line.split("|")[1].strip()] = [float(text) for text in re.findall(r"\d+\.\d+", line)]
    curves = {curve.arm: curve for curve in record.curves if curve.metric == "step_time_s"}
    for name, arm in (("main", record.baseline.name), ("branch", record.candidate.name)):
        seconds = sorted(value for step, value in zip(curves[arm].steps, curves[arm].values, strict=True) if step)
        assert shown[name] == seconds
        assert f"**{median(seconds):.3f}**" in section
        assert f"{mean(seconds):.3f}" in section
    spent = {
        part.part: part.seconds for part in record.times[0].parts if part.part in ("compute", "compile", "checkpoint")
    }
    told = {name: re.search(rf"`{name}`[^`]*?(\d+\.\d+) s", section.replace("\n", " ")) for name in spent}
    assert {name: float(match[1]) if match else None for name, match in told.items()} == pytest.approx(spent, abs=5e-4)
    assert f"{sum(spent.values()):.2f} s of steps" in section
    messages = " ".join(finding.message for finding in record.findings)
    for words in ("12.6 hours", "0.9.2 and 0.8.1", "574ad3fb9", "metric_logger.py:196"):
        assert words in section
        assert words in messages
    (time,) = [row for row in record.rows if row.metric == "step_time_s"]
    assert time.reason.startswith("-6.6 %")
    assert "−6.6 %" in section
    assert record.verdict == "unknown"
    assert "Overall: *unknown*, not comparable, exit status 3." in section


@seeds
def test_the_second_example_is_what_the_page_holds(compare: Callable[[str], ComparisonRecord]) -> None:
    record = compare("000")
    section = DOC[DOC.index("**`11_optimizer") :].replace("\n", " ")
    cause = record.candidate.cause_of_death
    assert cause is not None
    assert f"`{cause.type}: {cause.message}`, line {cause.line} of the page" in section
    for words in (record.baseline.commit, record.candidate.commit, "92 minutes", "exit status 1"):
        assert words in section
    assert record.verdict == "regressed"


# ---------------------------------------------------------------- the glossary


def test_the_glossary_is_in_order_and_has_each_word_once() -> None:
    lines = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").splitlines()
    words = [match[1] for line in lines if (match := re.match(r"\| \*\*(.+?)\*\* \| \S", line))]
    assert len(words) == len([line for line in lines if line.startswith("| **")])
    assert words == sorted(set(words), key=str.lower)


@pytest.mark.parametrize("name", ["verdict.md", "glossary.md"])
def test_what_the_documents_name_exists(name: str) -> None:
    folder = ROOT / "docs"
    text = (folder / name).read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        assert (folder / link).exists(), link
    for path in re.findall(r"`((?:tasks|configs|docs)(?:/[\w.-]+)+)`", text):
        assert (ROOT / path).exists(), path
