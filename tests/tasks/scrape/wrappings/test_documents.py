"""Pages with both logs in order, and pages that lack one."""

from pathlib import Path
from typing import Any

import pytest

from tasks.scrape.read_log import scrape_text
from tasks.scrape.window import LogFormatError
from tests.wording.sentences import Wording

HEAD = """MaxView

‹ 03_dropoutCase: 04_int804_int8_b ›

Metrics: Linen vs NNX \u00a0·\u00a0 main

MetricLinen \u00a0 147168c3aNNX \u00a0 1b5e4eb5aDiff (NNX − Linen)
Final loss8.12508.1250

"""
FULL_LOG = "{name} \u00a0·\u00a0 {commit} \u00a0·\u00a0 main_20260417_235819 \u00a0·\u00a0 full log\n"
TITLE = "main (574ad3fb9) vs feat/x (574ad3fb9)| Metric | main 574ad3fb9 | feat/x 574ad3fb9 | Diff (feat/x − main) |\n"


def page(logs: Any, *names: str) -> bytes:
    text = HEAD.encode()
    for index, name in enumerate(names):
        text += FULL_LOG.format(name=name, commit=f"{index}47168c3a").encode() + logs.framed(*logs.steps(index + 3))
    return text


def read_page(data: bytes) -> tuple[str, list[tuple[str, str | None, str | None, int]]]:
    """The case of a page, and the name, branch, commit and number of steps of each of its logs."""
    reading = scrape_text(data, name="page.txt")
    assert reading.page is not None
    return reading.page["case"], [(run.name, run.branch, run.commit, run.steps.height) for run in reading.runs]


def test_heads_name_the_logs(logs: Any) -> None:
    data = page(logs, "NNX", "Linen")  # in another order than in the title
    assert read_page(data) == ("04_int8", [("Linen", "main", "147168c3a", 4), ("NNX", "main", "047168c3a", 3)])


def test_arms_with_one_name_are_distinguished_by_their_order(logs: Any) -> None:
    head = HEAD.replace("NNX", "Linen").encode()
    data = head + page(logs, "Linen", "Linen").removeprefix(HEAD.encode())
    assert [(name, commit, steps) for name, _, commit, steps in read_page(data)[1]] == [
        ("Linen", "047168c3a", 3),
        ("Linen", "147168c3a", 4),
    ]


# ecnal-cienet.github.io/maxview: the pages of two branches, and those of one whose logs have no heads
BRANCHES = """MaxView

‹ 16_zarr3_false_saveCase: 16_zarr3_true_resume16_zarr3_true_save ›

Metrics: main (586e69205) vs feat/pipeline-scan-nnx (5b21b66fc)

Metricmain  586e69205feat/pipeline-scan-nnx  5b21b66fcDiff (feat/pipeline-scan-nnx − main)
Final loss5.39105.39100

"""
HEADLESS = """MaxView

‹ 05_fp8Case: 06_grad_accum07_eval ›

Metrics: Linen vs feat/NNX  ·  feat/nnx-trainstate-and-training-loop

MetricLinen  29bbe47edfeat/NNX  19bbe47edDiff (feat/NNX − Linen)
Final loss6.167010.5490+4.382

Diff = NNX value − Linen value. Green = NNX improved. Red = NNX regressed.

"""


def test_the_page_of_two_branches(logs: Any) -> None:
    text = BRANCHES.encode()
    for name, commit, steps in (("feat/pipeline-scan-nnx", "5b21b66fc", 3), ("main", "586e69205", 4)):
        text += FULL_LOG.format(name=name, commit=commit).encode() + logs.framed(*logs.steps(steps))
    runs = [("main", "main", "586e69205", 4), ("feat/pipeline-scan-nnx", "feat/pipeline-scan-nnx", "5b21b66fc", 3)]
    assert read_page(text) == ("16_zarr3_true_resume", runs)


def test_commits_of_logs_without_headings_come_from_the_table(logs: Any) -> None:
    text = HEADLESS.encode() + logs.framed(*logs.steps(3)) + b"\n" + logs.framed(*logs.steps(4))
    branch = "feat/nnx-trainstate-and-training-loop"
    runs = [("Linen", branch, "29bbe47ed", 3), ("feat/NNX", branch, "19bbe47ed", 4)]
    assert read_page(text) == ("06_grad_accum", runs)


@pytest.mark.parametrize(("there", "missing"), [("Linen", "NNX"), ("NNX", "Linen")])
def test_one_log_missing(logs: Any, there: str, missing: str) -> None:
    empty = FULL_LOG.format(name=missing, commit="abcdef012").encode() + b"(no log)\n"
    for data in (page(logs, there), page(logs, there) + empty):
        message = r"page\.txt: has 1 of the logs of Linen and NNX; open both logs"
        with pytest.raises(LogFormatError, match=message):
            scrape_text(data, name="page.txt")


def test_no_log_at_all(wording: Wording) -> None:
    with pytest.raises(LogFormatError, match=r"page\.txt: has 0 of ") as error:
        scrape_text(HEAD.encode(), name="page.txt")
    wording("errors", error.value)


def test_logs_without_headings_by_order(logs: Any) -> None:
    first, second = logs.framed(*logs.steps(3)), logs.framed(*logs.steps(4))
    reading = scrape_text(TITLE.encode() + first + second, name="page.txt")
    assert [(run.name, run.branch, run.steps.height) for run in reading.runs] == [
        ("main", "main", 3),
        ("feat/x", "feat/x", 4),
    ]
    for one in (first, second):
        with pytest.raises(LogFormatError, match="has 1 of the logs of main and feat/x"):
            scrape_text(TITLE.encode() + one, name="page.txt")


def test_founding_pages_with_a_log_removed(seeds: Path) -> None:
    linen = (seeds / "000_1ada0a1f0c04a8c8.txt").read_bytes()
    with pytest.raises(LogFormatError, match="has 1 of the logs of Linen and NNX"):
        scrape_text(linen[: linen.rindex("NNX \u00a0·".encode())], name="page")
    branches = (seeds / "002_2f609e8cddb2312c.txt").read_bytes()
    start = branches.index(b"XPK Start")
    second = branches.index(b"574ad3fb9\n", start)
    for cut in (branches[:second], branches[:start] + branches[second:]):
        with pytest.raises(LogFormatError, match="has 1 of the logs of main and feat/Migrate"):
            scrape_text(cut, name="page")


def test_a_log_is_not_a_page(logs: Any) -> None:
    reading = scrape_text(logs.framed(*logs.steps(3)), name="some/run.log")
    assert reading.page is None
    assert [run.name for run in reading.runs] == ["run"]
