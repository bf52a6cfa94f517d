"""The two MaxView pages of the founding documents: their tables digit for digit, and facts that they do not mention."""

import io
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from tasks.diff.compare_logs import archive, compare_pair
from tasks.diff.judge.exit_status import exit_status
from tasks.ingest.given_logs import read_pair
from tasks.publish.page.write_page import write_page
from tasks.publish.terminal.report import render_details
from tasks.records.compared_case import ComparisonRecord, MetricDiff
from tasks.scrape.read_log import scrape
from tasks.store.store import Store
from tests.wording.sentences import Wording

pytestmark = pytest.mark.skipif(
    "MAXVIEW_SEEDS" not in os.environ, reason="MAXVIEW_SEEDS does not name the folder of the founding documents"
)

type RowOf = Callable[[ComparisonRecord, str], MetricDiff]

# the tables as the pages show them, in MaxView's order
PAGE_000 = [
    ("Parameters", "1.104 billion", "–, died", "—"),
    ("Final loss", "8.1790", "–, died", "—"),
    ("TFLOP/s", "91.900", "–, died", "—"),
    ("Tok/s", "13852.2", "–, died", "—"),
    ("Avg s/step", "2.864", "–, died", "—"),
    ("Memory %", "1.38", "–, died", "—"),
    ("JAX", "0.9.2", "0.9.2", "—"),
]
PAGE_002 = [
    ("Parameters", "1.104 billion", "1.104 billion", "—"),
    ("Final loss", "6.9810", "6.9810", "0"),
    ("TFLOP/s", "11.338", "11.302", "-0.036"),
    ("Tok/s", "1812.1", "1806.3", "-5.779"),
    ("Avg s/step", "1.374", "1.430", "+0.056"),
    ("Memory %", "1.31", "1.31", "0"),
    ("JAX", "0.9.2", "0.8.1", "—"),
]


def page(number: str) -> Path:
    (path,) = Path(os.environ["MAXVIEW_SEEDS"]).glob(f"{number}_*.txt")
    return path


def compare(number: str, out: Path, *, aa: bool = False) -> ComparisonRecord:
    pair = read_pair([page(number)])
    assert pair.case is not None
    return compare_pair(archive(pair, Store(out)), case=pair.case, aa=aa)


@pytest.fixture(scope="module")
def page_000(tmp_path_factory: pytest.TempPathFactory) -> ComparisonRecord:
    return compare("000", tmp_path_factory.mktemp("000"))


@pytest.fixture(scope="module")
def page_002(tmp_path_factory: pytest.TempPathFactory) -> ComparisonRecord:
    return compare("002", tmp_path_factory.mktemp("002"))


def table(record: ComparisonRecord) -> list[tuple[str, str, str, str]]:
    rows = [row for row in record.rows if row.group == "maxview"]
    return [(row.title, row.baseline_text, row.candidate_text, row.difference_text) for row in rows]


def findings(record: ComparisonRecord) -> dict[str, tuple[str, str]]:
    return {finding.kind: (finding.effect, finding.message) for finding in record.findings}


def test_the_cases_are_on_the_pages(page_000: ComparisonRecord, page_002: ComparisonRecord) -> None:
    assert (page_000.case, page_002.case) == ("11_optimizer_offload_false", "03_dropout")


# ---------------------------------------------------------------- 002: main against a branch


def test_the_mean_of_002_has_the_wrong_sign(page_002: ComparisonRecord, wording: Wording) -> None:
    (mean,) = (row for row in page_002.rows if row.metric == "avg_step_time_s")
    # the steady steps: 128 tokens / 1812.6 per second and 1833.0
    assert "+0.056 s" in mean.reason
    assert "-0.001 s" in mean.reason
    wording("reasons", mean.reason)


def test_the_table_of_002_digit_for_digit(page_002: ComparisonRecord) -> None:
    assert table(page_002) == PAGE_002


def test_002_ran_different_code_under_one_commit(page_002: ComparisonRecord, wording: Wording) -> None:
    assert page_002.verdict == "unknown"
    assert page_002.headline.startswith("not comparable: ")
    for name in ("574ad3fb9", "(0.9.2 and 0.8.1)"):
        assert name in page_002.headline
    assert "itself" not in page_002.headline
    wording("reasons", page_002.headline)
    assert exit_status([page_002]) == 3
    assert {kind: effect for kind, (effect, _) in findings(page_002).items()} == {
        "other-source": "blocks",
        "jax-version": "qualifies",
        "libtpu-version": "qualifies",
        "host-process": "qualifies",
        "missing-field": "qualifies",
        "last-digit": "qualifies",
        "started-apart": "note",
    }


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("jax-version", "(0.9.2 and 0.8.1)"),
        ("host-process", "(7 and 0)"),
        ("other-source", "(metric_logger.py:196 and metric_logger.py:185, maxtext_utils.py:1551 and"),
        ("libtpu-version", "(cl/878335365, Mar 4 2026 and cl/831091709, Nov 12 2025)"),
        ("missing-field", "574ad3fb9 have no lm_loss, perplexity; those of main · 574ad3fb9 do"),
    ],
)
def test_unflagged_facts_of_002(kind: str, words: str, page_002: ComparisonRecord) -> None:
    assert words in findings(page_002)[kind][1]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("jax-version", ("Jax Version: 0.9.2", "Jax Version: 0.8.1")),
        ("libtpu-version", ("Built on Mar 4 2026", "Built on Nov 12 2025")),
        ("host-process", ("[process=7]", "[process=0]")),
        ("missing-field", ("lm_loss: ", "completed step: 0, ")),
        ("started-apart", ("XPK Start: Sat Apr 18", "XPK Start: Sun Apr 19")),
    ],
)
def test_the_evidence_of_002_links_to_its_lines(kind: str, words: tuple[str, str], page_002: ComparisonRecord) -> None:
    data = page("002").read_bytes()
    (finding,) = [finding for finding in page_002.findings if finding.kind == kind]
    shown = sorted(finding.evidence, key=lambda evidence: evidence.arm != "main")
    for evidence, text in zip(shown, words, strict=True):
        assert evidence.source is not None
        assert text in data[evidence.source.offset : evidence.source.offset + 260].decode()
        assert data[: evidence.source.offset].count(b"\n") + 1 == evidence.source.line


def test_the_sign_of_the_step_time_flips(page_002: ComparisonRecord, row_of: RowOf) -> None:
    mean, median = row_of(page_002, "avg_step_time_s"), row_of(page_002, "step_time_s")
    assert (median.baseline, median.candidate) == pytest.approx((0.0706, 0.0698), abs=0.0002)
    assert mean.difference is not None
    assert median.difference is not None
    assert mean.difference > 0 > median.difference
    assert float(median.difference_text) == pytest.approx(median.difference, abs=5e-5)
    assert median.verdict == "unknown"  # one run of each
    assert "ruled by stalls" in mean.reason


def test_the_stalls_of_002_are_checkpoints(page_002: ComparisonRecord, row_of: RowOf) -> None:
    row = row_of(page_002, "stall_s")
    # by hand: main's steps 1, 3 and 7, the branch's 1, 2 and 6, each less the median
    assert row.baseline == pytest.approx(1.399 + 0.823 + 9.671 - 3 * 0.076, abs=0.01)
    assert row.candidate == pytest.approx(2.864 + 0.424 + 9.285 - 3 * 0.071, abs=0.01)
    assert row.baseline_text == "11.7 (3 × checkpoint)"
    assert row.verdict == "not judged"


def test_equal_final_losses_hide_a_step_that_differs(
    page_002: ComparisonRecord, row_of: RowOf, wording: Wording
) -> None:
    final, steps = row_of(page_002, "final_loss"), row_of(page_002, "loss_per_step")
    assert (final.verdict, final.reason) == ("same", "equal to printed precision")
    assert (steps.baseline_text, steps.candidate_text, steps.verdict) == ("8.459", "8.458", "same")
    effect, message = findings(page_002)["last-digit"]
    assert effect == "qualifies"
    assert "step 4 (8.459 and 8.458)" in message
    wording("findings", message)
    assert page_002.divergence is not None
    assert (page_002.divergence.step, page_002.divergence.precision) == (4, "printed precision (3 decimals)")


def test_the_commit_of_a_checkpoint_is_not_visible_from_process_7(
    page_002: ComparisonRecord, row_of: RowOf, wording: Wording
) -> None:
    row = row_of(page_002, "checkpoints")
    assert row.baseline_text.startswith("2 announced")
    wording("parts", row.baseline_text)
    assert row.candidate_text == "2 of 2 committed"
    assert row.verdict == "unknown"


def test_as_a_control_002_has_two_different_commits(tmp_path: Path) -> None:
    record = compare("002", tmp_path, aa=True)
    assert "same-commit" not in findings(record)
    assert record.verdict == "unknown"
    assert findings(record)["other-source"][0] == "blocks"
    assert "574ad3fb9" in record.headline


# ---------------------------------------------------------------- a change that was put there is found there


@pytest.mark.flows
@pytest.mark.parametrize("number", ["000", "002"])
@pytest.mark.parametrize("change", [0.001, -0.001])
def test_a_changed_loss_is_found_at_its_step(number: str, change: float, tmp_path: Path) -> None:
    """The log against itself with the loss of one step changed by one printed unit."""
    begin, end = scrape(page(number)).runs[0].span
    text = page(number).read_bytes()[begin:end]
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "log.txt").write_bytes(text)
    for k in range(10):
        pattern = re.compile(rb"(completed step: %d, .{1,200}?[, ]loss: )(\d+\.\d{3})" % k, re.DOTALL)
        other = pattern.sub(lambda m: m[1] + f"{float(m[2]) + change:.3f}".encode(), text)
        folder = tmp_path / f"b{k}"
        folder.mkdir()
        (folder / "log.txt").write_bytes(other)
        pair = read_pair([tmp_path / "a" / "log.txt", folder / "log.txt"])
        record = compare_pair(archive(pair, Store(tmp_path / f"out{k}")), case="c", aa=True)
        assert record.divergence is not None
        assert record.divergence.step == k
        assert (record.parities[0].different, record.parities[0].largest_gap) == (1, 0.001)


# ---------------------------------------------------------------- 000: Linen against an NNX that died


def test_the_table_of_000_digit_for_digit(page_000: ComparisonRecord) -> None:
    assert table(page_000) == PAGE_000


def test_000_shows_why_and_where_the_candidate_died(page_000: ComparisonRecord) -> None:
    assert page_000.verdict == "regressed"
    assert exit_status([page_000]) == 1
    cause = page_000.candidate.cause_of_death
    assert cause is not None
    assert cause.type == "NotImplementedError"
    assert cause.message.startswith("Pure NNX ")
    line = page("000").read_text().splitlines()[cause.line - 1]
    assert line.endswith(f"NotImplementedError: {cause.message}")
    assert page("000").read_bytes()[cause.offset :].startswith(b"NotImplementedError")
    assert f": not implemented: {cause.message} ({cause.type}, exit code 1, " in page_000.headline


def test_unflagged_facts_of_000(page_000: ComparisonRecord) -> None:
    found = findings(page_000)
    assert {kind: effect for kind, (effect, _) in found.items()} == {
        "died": "blocks",
        "different-commits": "qualifies",
        "started-apart": "note",
    }
    # 00:54:24 and 02:26:32
    assert found["started-apart"][1] == "the runs started 92 minutes apart"
    assert (page_000.baseline.commit, page_000.candidate.commit) == ("147168c3a", "1b5e4eb5a")


def test_no_value_of_the_survivor_of_000_is_lost_on_a_whole_surface(page_000: ComparisonRecord, tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=80)
    console.print(render_details(page_000))
    write_page(page_000, tmp_path, log_lines={})
    surfaces = {
        "terminal": console.file.getvalue(),  # type: ignore[attr-defined]
        "page": (tmp_path / "index.html").read_text(encoding="utf-8").replace("\u00a0", " "),
    }
    for surface, text in surfaces.items():
        for value in ("1.104 billion", "8.1790", "91.900", "13852.2", "2.864", "1.38"):
            assert value in re.sub(r"\s+", " ", text), (surface, value)


def test_the_survivor_of_000_is_named_in_its_end(page_000: ComparisonRecord, row_of: RowOf) -> None:
    steady = row_of(page_000, "step_time_s")
    assert (steady.candidate_text, steady.verdict) == ("–, died", "not judged")
    assert row_of(page_000, "end").baseline_text == "10 steps, final loss 8.179"


def test_no_cell_of_a_dead_arm_is_blank(page_000: ComparisonRecord) -> None:
    first, *rest = page_000.rows
    assert first.candidate_text == "died: not implemented"
    assert {row.candidate_text for row in rest} == {"–, died", "0.9.2"}
    assert not any(row.verdict in ("regressed", "unknown") for row in rest)  # only its end is judged


# ---------------------------------------------------------------- links from numbers to lines


@pytest.mark.parametrize(
    ("metric", "baseline", "candidate"),
    [
        ("final_loss", "loss: 6.981", "loss: 6.981"),
        ("tflops_per_device", "TFLOP/s/device: 11.338", "TFLOP/s/device: 11.302"),
        ("tokens_per_s", "Tokens/s/device: 1812.056", "Tokens/s/device: 1806.277"),
        ("loss_per_step", "loss: 8.459", "loss: 8.458"),
        ("parameters", "1.104 billion", "1.104 billion"),
        ("memory_percent", "0.41", "0.41"),
    ],
)
def test_the_places_in_002(
    metric: str, baseline: str, candidate: str, page_002: ComparisonRecord, row_of: RowOf
) -> None:
    data = page("002").read_bytes()
    row = row_of(page_002, metric)
    for source, words in ((row.baseline_source, baseline), (row.candidate_source, candidate)):
        assert source is not None
        assert words in data[source.offset : source.offset + 260].decode()
        assert data[: source.offset].count(b"\n") + 1 == source.line


# ---------------------------------------------------------------- 004: Megatron's table of arguments


def test_a_changed_argument_of_megatron_links_to_its_line(tmp_path: Path, wording: Wording) -> None:
    text = page("004").read_bytes()
    assert text.count(b" seed ........") == 1
    sides = []
    for name, seed in (("a", b"1234"), ("b", b"1235")):
        (tmp_path / name).mkdir()
        sides.append(tmp_path / name / "log.txt")
        sides[-1].write_bytes(re.sub(rb"( seed \.+ )\d+", rb"\g<1>" + seed, text))
    pair = read_pair(sides)
    record = compare_pair(archive(pair, Store(tmp_path / "out")), case="c", aa=True)
    (finding,) = [finding for finding in record.findings if finding.kind == "seed"]
    assert finding.message.startswith("seed ")
    assert "(1234 and 1235)" in finding.message
    wording("findings", finding.message)
    for evidence, file in zip(finding.evidence, sides, strict=True):
        assert evidence.source is not None
        line = file.read_bytes().splitlines()[evidence.source.line - 1]
        assert b" seed ...." in line
        assert line.endswith(evidence.value.encode())
        assert file.read_bytes()[evidence.source.offset :].startswith(b"seed ...")


@pytest.mark.parametrize(
    ("arm", "expected"),
    [
        # from the log: two of Orbax's own figures, and the times of the lines around the last wait
        ("main", {"waits for saves": 32.833347, "blocking saves": 0.75, "wait at the end": 52.337448}),
        (
            "feat/Migrate-Decoder-And-Tests-to-NNX",
            {"waits for saves": 37.889737, "blocking saves": 1.422629, "wait at the end": 51.335442},
        ),
    ],
)
def test_the_time_account_of_002_agrees_with_its_log(
    arm: str, expected: dict[str, float], page_002: ComparisonRecord
) -> None:
    (account,) = [account for account in page_002.times if account.arm == arm]
    parts = {part.part: part for part in account.parts}
    assert {name: pytest.approx(parts[name].seconds, abs=1e-6) for name in expected} == expected
    assert parts["between"].seconds < 1.0  # of 84.7 and 88.7 s, before
    assert sum(part.seconds for part in account.parts) == pytest.approx(account.total_s)
    data = page("002").read_bytes()
    place = parts["waits for saves"].source
    assert place is not None
    assert data[place.offset :].startswith(b"Waiting for previous save to complete took 3")
