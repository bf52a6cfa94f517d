"""The rows of memory: a leak and a larger peak are found; equal runs, whose allocators jump, are the same."""

from collections.abc import Callable, Sequence

import polars as pl
import pytest

from tasks.records.compared_case import ComparisonRecord, MetricDiff
from tasks.records.run import RunRecord
from tests.wording.sentences import Wording

type MakeRun = Callable[..., RunRecord]
type Compare = Callable[..., ComparisonRecord]
type RowOf = Callable[[ComparisonRecord, str], MetricDiff]

MIB = 2**20
# resident memory at the end of each step of four equal runs of our trainer (01_base, 20 steps, on a processor), in MiB
EQUAL = (
    [497, 528, 528, 528, 528, 528, 528, 528, 528, 528, 528, 528, 528, 556, 556, 556, 556, 556, 556, 556],
    [508, 519, 547, 547, 575, 575, 575, 575, 575, 575, 575, 575, 575, 575, 575, 575, 575, 575, 575, 575],
    [499, 512, 512, 512, 512, 512, 512, 512, 512, 512, 512, 512, 512, 512, 512, 512, 512, 512, 512, 512],
    [510, 539, 539, 539, 539, 539, 539, 539, 539, 539, 539, 539, 539, 539, 539, 539, 539, 539, 539, 539],
)
# the same with 5 MiB in each step that are never freed: a part of them fills memory that the allocator has
LEAKS = (
    [510, 539, 539, 544, 572, 572, 572, 572, 600, 600, 600, 600, 600, 600, 600, 602, 612, 640, 640, 640],
    [487, 521, 549, 549, 549, 549, 549, 549, 577, 577, 577, 577, 577, 579, 584, 589, 599, 627, 627, 627],
    [499, 527, 532, 537, 542, 547, 552, 557, 586, 586, 586, 606, 634, 634, 634, 634, 634, 639, 639, 639],
)


def run_with(make_run: MakeRun, arm: str, used: Sequence[float], where: str = "host") -> RunRecord:
    """A run with this memory in MiB at the end of each step."""
    columns = {
        f"{where}_memory_b": [int(one * MIB) for one in used],
        f"{where}_memory_peak_b": [int(max(used) * MIB)] * len(used),
    }
    return make_run(arm, record={"metrics": pl.DataFrame({"step": range(len(used)), **columns})})


@pytest.mark.parametrize("left", range(4))
@pytest.mark.parametrize("right", range(4))
def test_equal_runs_are_the_same(left: int, right: int, make_run: MakeRun, compare: Compare, row_of: RowOf) -> None:
    record = compare(run_with(make_run, "linen", EQUAL[left]), run_with(make_run, "nnx", EQUAL[right]))
    assert {row_of(record, f"host_memory_{name}").verdict for name in ("gb", "growth")} == {"same"}


@pytest.mark.parametrize("where", ["host", "device"])
@pytest.mark.parametrize("left", range(4))
@pytest.mark.parametrize("right", range(3))
def test_five_mib_a_step_are_a_leak(
    left: int, right: int, where: str, make_run: MakeRun, compare: Compare, row_of: RowOf, wording: Wording
) -> None:
    arms = (("linen", EQUAL[left]), ("nnx", LEAKS[right]))
    record = compare(*(run_with(make_run, arm, used, where) for arm, used in arms))
    row = row_of(record, f"{where}_memory_growth")
    assert (row.verdict, record.verdict) == ("regressed", "regressed")
    assert row.candidate is not None
    assert 1 < row.candidate < 5
    wording("reasons", row.reason)
    back = compare(*(run_with(make_run, arm, used, where) for arm, (_, used) in zip("ab", arms[::-1], strict=True)))
    assert row_of(back, f"{where}_memory_growth").verdict == "improved"


def test_a_larger_peak_is_found(make_run: MakeRun, compare: Compare, row_of: RowOf, wording: Wording) -> None:
    for more, verdict in ((100, "same"), (1300, "not judged")):
        larger = [one + more for one in EQUAL[0]]
        row = row_of(
            compare(run_with(make_run, "linen", EQUAL[0]), run_with(make_run, "nnx", larger)), "host_memory_gb"
        )
        assert row.verdict == verdict
    assert (row.baseline_text, row.candidate_text) == ("0.543", "1.812")  # 556 and 1856 MiB
    wording("reasons", row.reason)


def test_a_large_host_may_differ_by_a_share(make_run: MakeRun, compare: Compare, row_of: RowOf) -> None:
    for factor, verdict in ((1.04, "same"), (1.06, "not judged"), (0.9, "not judged")):
        sides = [run_with(make_run, arm, [100_000 * by] * 20) for arm, by in (("linen", 1.0), ("nnx", factor))]
        assert row_of(compare(*sides), "host_memory_gb").verdict == verdict


def test_no_row_without_measurements(make_run: MakeRun, compare: Compare) -> None:
    one_sided = compare(run_with(make_run, "linen", EQUAL[0]), make_run("nnx"))
    for record in (compare(make_run("linen"), make_run("nnx")), one_sided):
        assert not [row for row in record.rows if row.metric.startswith(("host_memory", "device_memory"))]
