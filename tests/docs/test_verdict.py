"""docs/verdict.md and docs/step-times-of-runs.md agree with the code: findings, tolerances, examples by hand."""

import ast
import os
import re
from collections.abc import Callable
from math import log
from pathlib import Path
from statistics import mean

import pytest

from configs.findings import KINDS
from configs.verdict_rules import load_effects, load_noises, load_tolerances
from tasks.diff.compare_logs import archive, compare_pair
from tasks.diff.examine.circumstances import CHANCE, chance_of
from tasks.diff.examine.noise import LENT, MIN_PAIRS, NEIGHBOURS_S, STATED_WITHIN, learn_noise
from tasks.diff.examine.offsets import AT_ONCE, DIGIT_STEPS, MIN_OFFSET_STEPS, MOVED, OFFSET_CHANCE
from tasks.diff.examine.run_events import FAR_APART_S
from tasks.diff.judge.decide import MIN_REPEATS
from tasks.diff.judge.decide_curves import MAX_BLOCKS
from tasks.diff.judge.decide_noisy import SHARES, show_effect
from tasks.diff.judge.effect import CONFIDENCE, ENOUGH, MIXED, RANKED, TOGETHER, WIDE, Sample, measure_effect
from tasks.diff.judge.time_rows import MAX_LONGER, MAX_LONGER_MEAN, MAX_SLOW, SHIFTED, THROTTLED
from tasks.diff.phrases.amounts import show_duration
from tasks.ingest.given_logs import read_pair
from tasks.metrics.step_time_levels import CLOSE, FIFTHS, MAX_REACH, QUICK, REACH, SHUFFLES, TOO_QUICK
from tasks.records.compared_case import ComparisonRecord
from tasks.store.store import Store

ROOT = Path(__file__).parents[2]
DOC = "\n".join((ROOT / "docs" / name).read_text("utf-8") for name in ("verdict.md", "step-times-of-runs.md"))

SIDES = {"main": "baseline", "branch": "candidate"}  # of the first example

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


def test_the_findings_equal_the_config() -> None:
    reported = {
        kind: effect for kinds, effect, _ in table_rows("finding") for kind in re.findall(r"`([a-z-]+)`", kinds)
    }
    assert reported == load_effects()


def test_every_finding_is_made_somewhere() -> None:
    made = set()
    for path in (ROOT / "tasks" / "diff").rglob("*.py"):
        made |= strings_of(ast.parse(path.read_text(encoding="utf-8")))
    assert set(KINDS) <= made


def test_the_tolerances_equal_the_file() -> None:
    shown = {}
    for metrics, amount in table_rows("tolerance of"):
        for metric in re.findall(r"`(\w+)`", metrics):
            shown[metric] = amount
    given = load_tolerances("default")
    assert set(shown) == set(given)
    for metric, tolerance in given.items():
        if tolerance.relative is not None:
            assert shown[metric] == f"{100 * tolerance.relative:g} % of the baseline"
        else:
            assert shown[metric].split(":")[0] == f"{tolerance.absolute:g}"


def test_the_noise_of_devices_equals_the_file() -> None:
    shown = {}
    for device, *cells in table_rows("device"):
        shown[re.findall(r"`(\w+)`", device)[0]] = cells
    for kind, noise in load_noises().items():
        percents = [
            f"{100 * share:g} %"
            for share in (noise.equal_runs, noise.days_apart, noise.places_apart or 0, noise.tolerance, noise.least)
        ]
        assert shown.pop(kind) == [percents[0], f"{noise.weight:g}", *percents[1:]]
    assert not shown


def test_the_numbers_of_the_rule_equal_the_code() -> None:
    for words in (
        f"the {100 * QUICK:.0f} % quantile",
        f"Steps below {TOO_QUICK:g} × the usual step",
        f"(from {MIN_PAIRS} pairs on)",
        f"α is {100 * CHANCE:g} % for a whole comparison",
        f"the {100 * CONFIDENCE:g} % interval of the steady steps",
        f"all n ≥ {MIN_OFFSET_STEPS} steps of S",
        f"within {100 * MOVED:g} % of the first gap",
        f"A gap of one printed unit needs n ≥ {DIGIT_STEPS}",
        f"÷ C(S, n) ≤ {100 * OFFSET_CHANCE:g} %",
        f"a jump of more than {100 * AT_ONCE:g} %",
        f"the means of {MAX_BLOCKS} blocks of steps",
        f"more than {show_duration(FAR_APART_S)} between the starts",
        f"within {show_duration(NEIGHBOURS_S)} after its partner",
        f"in {SHUFFLES} random orders",
        f"a change of more than {100 * SHIFTED:g} % ({100 * THROTTLED:g} % with several runs of each",
        f"at most by a factor of {MAX_REACH:g}",
        f"at {100 * MIXED:g} %",
        f"(F test, {100 * WIDE:g} %)",
        f"(a test of their correlation, {100 * TOGETHER:g} %)",
        f"more than {100 * (MAX_LONGER - 1):.0f} % beyond that of every run",
        f"more than {100 * (MAX_LONGER_MEAN - 1):.0f} % beyond the other's",
    ):
        assert words in " ".join(DOC.split())
    assert SHARES == {"steady steps": 2 / 3, "typical steps": 1 / 3}  # "p ≤ ⅔ α for the steady steps or p ≤ ⅓ α"
    assert (CLOSE, MAX_SLOW) == (1.25, 0.2)  # "more than 1.25 × the usual one", "no more than a fifth"
    assert (REACH, FIFTHS, RANKED) == (3, 5, 5)  # "three times", "the quickest fifth", "From five runs of each on"
    assert ENOUGH == 2 * 3 - 2  # "from three runs of each on"
    assert STATED_WITHIN == 1  # "log s₀ ± 1 ÷ √d₀"
    assert (LENT, MIN_REPEATS) == (0.5, 3)  # "half of one per further pair", "three runs of each or more"
    assert chance_of(look=3) == pytest.approx(CHANCE / (3 * 4))  # 1 ÷ (n (n + 1))


def test_the_example_of_runs_follows_from_its_table() -> None:
    section = " ".join(DOC[DOC.index("**A candidate that is 5 % slower on a GPU.**") :].split("\n\n")[-1].split())
    rows = [row[1:] for row in table_rows("steady steps, s")]
    sides = [tuple(float(text) for text in row) for row in rows[:2]]
    for first, second, shown in zip(*sides, rows[2], strict=True):
        assert f"{log(second / first):.4f}" == shown
    effect = measure_effect(Sample(baseline=sides[0], candidate=sides[1], noise=learn_noise(load_noises()["gpu"])))
    assert f"The effect is {effect.estimate:.4f}" in section
    assert f"s = {100 * effect.scale:.2f} %" in section
    error = effect.scale / 3**0.5
    assert f"= {100 * error:.2f} %, with {effect.df:g} degrees of freedom" in section
    assert f"t = {effect.estimate / error:.1f}, p = {effect.p:.5f}" in section
    assert show_effect(effect) in section


@pytest.fixture
def compare(tmp_path: Path) -> Callable[[str], ComparisonRecord]:
    def run(number: str) -> ComparisonRecord:
        (page,) = Path(os.environ["MAXVIEW_SEEDS"]).glob(f"{number}_*.txt")
        pair = read_pair([page])
        return compare_pair(archive(pair, Store(tmp_path)), case=pair.case or "", aa=False)

    return run


@seeds
def test_the_first_example_agrees_with_its_page(compare: Callable[[str], ComparisonRecord]) -> None:
    record = compare("002")
    section = " ".join(DOC[DOC.index("**`03_dropout`") : DOC.index("**`11_optimizer")].split())
    curves = {curve.arm: curve for curve in record.curves if curve.metric == "step_time_s"}
    for name, arm in (("main", record.baseline.name), ("branch", record.candidate.name)):
        shown = re.findall(
            r"\d+\.\d{4}", section.split(f"{name} ", 1)[1].split("branch" if name == "main" else "Levels")[0]
        )
        assert shown == [f"{value:.4f}" for value in curves[arm].values[1:] if value is not None]
    for arm, page in (("main", "1.374"), ("branch", "1.430")):
        printed = [
            round(value, 3) for value in curves[getattr(record, SIDES[arm]).name].values[1:] if value is not None
        ]
        assert f"{mean(printed):.3f}" == page
        assert page in section
    spent = {part.part: part.seconds for part in record.times[0].parts}
    assert (
        f"`waits for saves` {spent['waits for saves']:.1f}, `blocking saves` {spent['blocking saves']:.2f}" in section
    )
    assert f"`wait at the end` {spent['wait at the end']:.1f} s; {spent['checkpoint']:.1f} s more" in section
    messages = " ".join(finding.message for finding in record.findings)
    for words in ("12.6 hours", "574ad3fb9"):
        assert words in section
        assert words in messages
    assert {finding.kind for finding in record.findings if finding.effect == "blocks"} == {"other-source"}
    (time,) = [row for row in record.rows if row.metric == "step_time_s"]
    assert time.effect_text.replace("-", "−") in section
    assert time.verdict == record.verdict == "unknown"


@seeds
def test_the_second_example_agrees_with_its_page(compare: Callable[[str], ComparisonRecord]) -> None:
    record = compare("000")
    section = DOC[DOC.index("**`11_optimizer") :].replace("\n", " ")
    cause = record.candidate.cause_of_death
    assert cause is not None
    assert f"`{cause.type}: {cause.message}`, line {cause.line} of the page" in section
    assert "exit status 1" in section
    assert record.verdict == "regressed"


# ---------------------------------------------------------------- the glossary


def test_the_glossary_is_in_order_and_has_each_word_once() -> None:
    lines = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").splitlines()
    words = [match[1] for line in lines if (match := re.match(r"\| \*\*(.+?)\*\* \| \S", line))]
    assert len(words) == len([line for line in lines if line.startswith("| **")])
    assert words == sorted(set(words), key=str.lower)


@pytest.mark.parametrize("name", ["verdict.md", "step-times-of-runs.md", "glossary.md"])
def test_names_in_the_documents_exist(name: str) -> None:
    folder = ROOT / "docs"
    text = (folder / name).read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        assert (folder / link).exists(), link
    for path in re.findall(r"`((?:tasks|configs|docs)(?:/[\w.-]+)+)`", text):
        assert (ROOT / path).exists(), path
