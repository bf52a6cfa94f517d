"""The metric rows: MaxView's figures, our additional ones, and a text for every cell without a value."""

from collections.abc import Callable, Mapping, Sequence
from math import inf, nan
from typing import Any

import polars as pl
import pytest

from tasks.diff.judge.exit_status import exit_status
from tasks.diff.judge.metric_rows import show_difference
from tasks.diff.phrases.amounts import ONE_RUN
from tasks.records.compared_case import ComparisonRecord, MetricDiff
from tasks.records.log_reading import DeviceMemory, Environment, Flops, Memory, Parameters
from tasks.records.run import RunRecord
from tasks.records.shared_fields import Source
from tasks.resolve.trainers.trainer import SOURCE
from tests.tasks.diff.conftest import SECONDS
from tests.wording.sentences import Wording

type MakeRun = Callable[..., RunRecord]
type Compare = Callable[..., ComparisonRecord]
type RowOf = Callable[[ComparisonRecord, str], MetricDiff]

SEVEN = ["Parameters", "Final loss", "TFLOP/s", "Tok/s", "Avg s/step", "Memory %", "JAX"]
SAME_PROGRAM = {"program": {"stablehlo_sha256": "f00d" * 16}}


def memory(used: float, total: float | None = 1.5) -> dict[str, Any]:
    percent = round(100 * used / 31.25, 3)
    device = DeviceMemory(device="TPU_0", used_gb=used, limit_gb=31.25, percent=percent, line=60, offset=600)
    return {"memory": Memory(total_gb=total, devices=(device,))}


@pytest.mark.parametrize(
    ("difference", "decimals", "expected"),
    [
        (0.056, 3, "+0.056"),
        (-0.0361, 3, "-0.036"),
        (0.0, 3, "0"),
        (-0.0004, 3, "0"),
        (0.0005, 3, "+0.001"),
        (None, 3, "—"),
        (1.0, None, "—"),
        (nan, 3, "—"),
        (inf, 3, "—"),
    ],
)
def test_differences_as_maxview_prints_them(difference: float | None, decimals: int | None, expected: str) -> None:
    assert show_difference(difference, decimals) == expected


def test_maxviews_seven_rows_come_first_in_their_order(make_run: MakeRun, compare: Compare) -> None:
    record = compare(make_run("linen"), make_run("nnx"))
    assert [row.title for row in record.rows if row.group == "maxview"] == SEVEN
    assert [row.group for row in record.rows[:7]] == ["maxview"] * 7


def test_the_figures_follow_maxviews_rules(make_run: MakeRun, compare: Compare, row_of: RowOf) -> None:
    record = compare(
        make_run("linen", seconds=(9.0, 0.2, 0.4), losses=(9.0, 8.0, 7.5)),
        make_run("nnx", seconds=(9.0, 0.2, 0.5), losses=(9.0, 8.0, 7.25)),
    )
    expected = {
        "parameters": ("1.104 billion", "1.104 billion", "—"),
        "final_loss": ("7.5000", "7.2500", "-0.2500"),
        "tflops_per_device": ("2.500", "2.000", "-0.500"),  # the last step only
        "tokens_per_s": ("2500.0", "2000.0", "-500.000"),
        "avg_step_time_s": ("0.300", "0.350", "+0.050"),  # without step 0
        "memory_percent": ("1.38", "1.38", "0"),
        "jax": ("0.12.0", "0.12.0", "—"),
    }
    for metric, texts in expected.items():
        row = row_of(record, metric)
        assert (row.baseline_text, row.candidate_text, row.difference_text) == texts, metric


def test_every_number_of_a_log_links_to_its_line(make_run: MakeRun, compare: Compare, row_of: RowOf) -> None:
    record = compare(make_run("linen"), make_run("nnx"))
    places = {metric: row_of(record, metric).baseline_source for metric in ("final_loss", "parameters")}
    assert places == {"final_loss": Source(line=105, offset=1050), "parameters": Source(line=40, offset=400)}
    for metric in ("tflops_per_device", "tokens_per_s", "avg_step_time_s", "memory_percent", "step_time_s"):
        row = row_of(record, metric)
        assert row.baseline_source is not None, metric
        assert row.candidate_source is not None, metric


def test_single_steps_and_means_defer_to_the_steady_steps(make_run: MakeRun, compare: Compare, row_of: RowOf) -> None:
    record = compare(make_run("linen"), make_run("nnx"))
    steady = row_of(record, "step_time_s")
    for metric in ("tflops_per_device", "tokens_per_s", "avg_step_time_s"):
        row = row_of(record, metric)
        assert row.verdict == "not judged"
        assert row.reason.startswith("see the steady steps: ")
        assert (row.threshold, row.threshold_text) == (None, "")
    assert steady.threshold == pytest.approx(0.02 * 0.1)


# ---------------------------------------------------------------- dead arms and missing values


def test_a_dead_arm_does_not_hide_the_survivors_values(
    make_run: MakeRun, compare: Compare, died: Mapping[str, Any]
) -> None:
    record = compare(make_run("linen"), make_run("nnx", losses=(), reading=died))
    end, *rest = record.rows
    assert (end.metric, end.verdict, end.reason) == ("end", "regressed", "nnx · c0ffee died before the end")
    assert (end.baseline_text, end.candidate_text) == ("6 steps, final loss 7.0", "died: NotImplementedError")
    assert end.candidate_source == Source(line=258, offset=37578)
    living = compare(make_run("linen"), make_run("nnx"))
    shared = {"Other values, step by step"}  # a count of common steps
    assert {row.title: row.baseline_text for row in rest} == {
        row.title: row.baseline_text for row in living.rows if row.title not in shared
    }
    assert {row.candidate_text for row in rest} == {"–, died", "0.12.0"}  # its log contains the version of JAX
    assert {row.verdict for row in rest if row.candidate_text == "–, died"} == {"not judged"}


def test_two_dead_arms_are_both_named(make_run: MakeRun, compare: Compare, died: Mapping[str, Any]) -> None:
    record = compare(make_run("linen", losses=(), reading=died), make_run("nnx", losses=(), reading=died))
    row = record.rows[0]
    assert (row.baseline_text, row.candidate_text, row.verdict) == (
        *["died: NotImplementedError"] * 2,
        "unknown",
    )
    assert row.reason.startswith("linen · c0ffee and nnx · c0ffee died ")


def test_a_value_missing_in_a_log_is_distinguished_from_a_death(
    make_run: MakeRun, compare: Compare, row_of: RowOf
) -> None:
    silent = make_run("nnx", reading={"parameters": Parameters(), "memory": Memory()})
    row = row_of(compare(make_run("linen"), silent), "parameters")
    assert (row.candidate_text, row.verdict) == ("not in the log", "unknown")
    assert row.reason == "the log of nnx · c0ffee has no value"
    record = compare(make_run("linen", reading={"memory": Memory()}), silent)
    assert record.absent == ("Memory %", "Program memory")
    assert not {"memory_percent", "program_memory_gb"} & {row.metric for row in record.rows}


def test_an_older_log_lacks_columns(make_run: MakeRun, compare: Compare, row_of: RowOf) -> None:
    run = make_run("linen")
    old = run.replace(reading=run.reading.replace(steps=run.reading.steps.drop("tokens_per_s_per_device")))
    assert row_of(compare(old, make_run("nnx")), "tokens_per_s").baseline_text == "not in the log"


# ---------------------------------------------------------------- loss


def test_a_single_step_has_a_singular_noun(make_run: MakeRun, compare: Compare, row_of: RowOf) -> None:
    record = compare(make_run("linen", losses=(9.0,)), make_run("nnx", losses=(9.0,)))
    assert row_of(record, "loss_per_step").reason.endswith("at the one common step")
    assert row_of(record, "loss_per_step").baseline_text == "1 step"


@pytest.mark.parametrize(
    ("losses", "verdict", "words"),
    [
        ((9.0, 8.5, 8.0), "same", "equal to printed precision (3 decimals) at all 3 common steps"),
        (
            (9.0, 8.501, 8.0),
            "same",
            "differs first at step 1 (8.500 and 8.501), by at most one unit of the last printed digit",
        ),
        ((9.0, 8.502, 8.0), "unknown", "differs first at step 1 (8.500 and 8.502): one run of each cannot distinguish"),
        ((9.0, 8.501, 7.0), "changed", "differs first at step 1 (8.500 and 8.501), most at step 2; 1 lower"),
        ((9.0, 8.501, 9.0), "regressed", "differs first at step 1 (8.500 and 8.501), most at step 2; 1 higher"),
        ((9.0, 8.5, nan), "regressed", "is NaN or infinite in the candidate from step 2 on"),
    ],
)
def test_the_loss_of_every_step_is_judged(
    losses: Sequence[float], verdict: str, words: str, make_run: MakeRun, compare: Compare, row_of: RowOf
) -> None:
    record = compare(make_run("linen", losses=(9.0, 8.5, 8.0)), make_run("nnx", losses=losses))
    row = row_of(record, "loss_per_step")
    assert row.verdict == verdict
    assert row.reason.startswith(words)
    assert row.threshold_text == "equal to 3 decimals"


def test_a_differing_loss_shows_its_step(make_run: MakeRun, compare: Compare, row_of: RowOf) -> None:
    record = compare(make_run("linen", losses=(9.0, 8.459)), make_run("nnx", losses=(9.0, 8.458)))
    row = row_of(record, "loss_per_step")
    assert (row.baseline_text, row.candidate_text, row.difference_text) == ("8.459", "8.458", "-0.001")
    assert row.baseline_source == row.candidate_source == Source(line=101, offset=1010)
    assert record.divergence is not None
    assert record.divergence.step == 1


def test_full_precision_judges_the_last_bit(
    make_run: MakeRun, compare: Compare, row_of: RowOf, wording: Wording
) -> None:
    left = make_run("linen", exact=(9.0, 8.5, 8.0, 7.5, 7.25, 7.0))
    right = make_run("nnx", exact=(9.0, 8.5, 8.0, 7.5, 7.25, 7.0000005))
    record = compare(left, right)
    assert row_of(record, "loss_per_step").verdict == "unknown"
    proved = [run.replace(**SAME_PROGRAM) for run in (left, right)]
    assert row_of(compare(*proved), "loss_per_step").verdict == "regressed"
    assert row_of(record, "loss_per_step").threshold_text == "exact"
    assert row_of(record, "final_loss").verdict == "same"  # as printed
    equal = row_of(compare(left, left.replace(arm="nnx")), "loss_per_step").reason
    assert "(float32) at all 6 " in equal
    wording("reasons", equal)


def test_the_final_loss_of_a_dead_arm_is_compared_at_its_last_step(
    make_run: MakeRun, compare: Compare, row_of: RowOf, died: Mapping[str, Any]
) -> None:
    """The candidate died after three of six steps with the baseline's losses: 8.0 and 7.0 are not compared."""
    living, dead = make_run("linen"), make_run("nnx", losses=(9.0, 8.5, 8.0), seconds=(3.0, 0.1, 0.1), reading=died)
    row = row_of(compare(living, dead), "final_loss")
    assert (row.baseline, row.candidate, row.difference) == (8.0, 8.0, 0.0)
    assert (row.verdict, row.rule) == ("not judged", "step 2, the last one that both have")
    assert row.baseline_source is not None
    assert row.baseline_source.line == 102  # the first step is line 100


def test_no_common_step_is_no_evidence(make_run: MakeRun, compare: Compare, row_of: RowOf) -> None:
    record = compare(make_run("linen", losses=(9.0, 8.0)), make_run("nnx", losses=(9.0, 8.0), first=5))
    row = row_of(record, "loss_per_step")
    assert (row.verdict, row.reason) == ("unknown", "the arms have no step in common")
    assert record.verdict == "unknown"


@pytest.mark.parametrize(("last", "verdict"), [(7.0, "same"), (7.001, "same"), (7.5, "regressed"), (6.5, "changed")])
def test_the_final_loss(last: float, verdict: str, make_run: MakeRun, compare: Compare, row_of: RowOf) -> None:
    record = compare(make_run("linen", losses=(9.0, 7.0)), make_run("nnx", losses=(9.0, last)))
    assert row_of(record, "final_loss").verdict == verdict


def test_final_losses_of_different_steps_are_not_compared(make_run: MakeRun, compare: Compare, row_of: RowOf) -> None:
    row = row_of(compare(make_run("linen"), make_run("nnx", losses=(9.0, 8.5))), "final_loss")
    assert (row.verdict, row.reason) == ("unknown", "the last steps are not the same (5 and 1)")
    dead = make_run("nnx", losses=(9.0, 8.5), reading={"exit_code": 1})
    assert row_of(compare(make_run("linen"), dead), "final_loss").verdict == "not judged"  # an arm died


# ---------------------------------------------------------------- memory


@pytest.mark.parametrize(
    ("used", "verdict"), [(0.43, "same"), (0.44, "unknown"), (0.45, "regressed"), (0.42, "unknown"), (0.41, "improved")]
)
def test_memory_is_printed_in_hundredths_of_a_gigabyte(
    used: float, verdict: str, make_run: MakeRun, compare: Compare, row_of: RowOf
) -> None:
    record = compare(make_run("linen", reading=memory(0.43)), make_run("nnx", reading=memory(used)))
    assert row_of(record, "memory_percent").verdict == verdict


def test_the_fullest_device_counts(make_run: MakeRun, compare: Compare, row_of: RowOf) -> None:
    devices = tuple(
        DeviceMemory(device=f"TPU_{n}", used_gb=0.43, limit_gb=31.25, percent=p, line=60 + n, offset=600 + n)
        for n, p in enumerate((1.376, 1.408, 1.376))
    )
    row = row_of(
        compare(make_run("linen", reading={"memory": Memory(devices=devices)}), make_run("nnx")), "memory_percent"
    )
    assert (row.baseline_text, row.baseline_source) == ("1.41", Source(line=61, offset=601))


@pytest.mark.parametrize(("total", "verdict"), [(1.5, "same"), (1.6, "unknown"), (1.7, "regressed"), (1.3, "improved")])
def test_program_memory(total: float, verdict: str, make_run: MakeRun, compare: Compare, row_of: RowOf) -> None:
    record = compare(make_run("linen"), make_run("nnx", reading=memory(0.43, total)))
    assert row_of(record, "program_memory_gb").verdict == verdict


@pytest.mark.parametrize(
    ("temp", "verdict", "text"),
    [
        (40 * 2**20, "same", "0.0684"),  # 30 + 10 + 40 − 10 MB are 70 MB
        (40 * 2**20 + 4096, "same", "0.0684"),  # within 0.1 %
        (44 * 2**20, "regressed", "0.0723"),  # a log with one decimal does not show it
        (36 * 2**20, "improved", "0.0645"),
    ],
)
def test_program_memory_is_compared_in_bytes_if_both_trainers_report_them(
    temp: int, verdict: str, text: str, make_run: MakeRun, compare: Compare, row_of: RowOf
) -> None:
    def bytes_of(temp: int) -> dict[str, Any]:
        sizes = {"argument": 30 * 2**20, "output": 10 * 2**20, "temp": temp, "alias": 10 * 2**20, "host_temp": 0}
        return {"program": {"memory_bytes": sizes}}

    left = make_run("linen", record=bytes_of(40 * 2**20))
    row = row_of(compare(left, make_run("nnx", record=bytes_of(temp))), "program_memory_gb")
    assert (row.verdict, row.candidate_text) == (verdict, text)
    row = row_of(compare(left, make_run("nnx")), "program_memory_gb")  # a trainer with a log only
    assert (row.verdict, row.candidate_text) == ("same", "1.5")


# ---------------------------------------------------------------- time


def repeats(make_run: MakeRun, arm: str, medians: Sequence[float]) -> list[RunRecord]:
    return [
        make_run(arm, seconds=(3.0, median, median, median), losses=(9.0, 8.0, 7.0, 6.0), plan={}, repeat=n)
        for n, median in enumerate(medians)
    ]


@pytest.mark.parametrize(
    ("candidate", "verdict"),
    [
        ((1.00, 1.01, 0.99), "same"),
        ((1.20, 1.21, 1.19), "regressed"),
        ((0.80, 0.81, 0.79), "improved"),
        ((1.20, 0.81, 0.99), "unknown"),
    ],
)
def test_three_repeats_can_decide(
    candidate: Sequence[float], verdict: str, make_run: MakeRun, compare: Compare, row_of: RowOf
) -> None:
    record = compare(repeats(make_run, "linen", (1.0, 1.01, 0.99)), repeats(make_run, "nnx", candidate))
    assert row_of(record, "step_time_s").verdict == verdict
    assert row_of(record, "tflops_per_device").verdict == "not judged"
    assert record.verdict == verdict


def test_one_run_of_each_on_a_noisy_device_states_the_cost_of_more(
    make_run: MakeRun,
    compare: Compare,
    row_of: RowOf,
    wording: Wording,
) -> None:
    loud = {"reading": {"environment": Environment(jax="0.12.0", backend="cpu", device_kind="cpu")}}
    row = row_of(compare(make_run("linen", **loud), make_run("nnx", **loud)), "step_time_s")
    assert (row.verdict, row.evidence) == ("unknown", "one run of each")
    assert row.runs_wanted is not None
    more = row.runs_wanted - 1  # of 30 s + 30 s each
    assert row.cost_text == f"about {more} minutes"
    assert f"(--repeats {row.runs_wanted}, about {more} minutes)" in row.reason
    wording("reasons", row.reason)


def test_a_log_without_a_device_belongs_to_the_devices_of_its_target(
    make_run: MakeRun, compare: Compare, row_of: RowOf
) -> None:
    """A custom trainer reports no device: on `cpu` its steps have the noise of a CPU."""
    mute = {"reading": {"environment": Environment()}}

    def verdict(platform: str) -> str:
        plan = {"environment": {"JAX_PLATFORMS": platform}}
        arms = [
            make_run(arm, seconds=(3.0, median, median, median), losses=(9.0, 8.0, 7.0, 6.0), plan=plan, **mute)
            for arm, median in (("linen", 1.0), ("nnx", 1.05))
        ]
        return row_of(compare(*arms), "step_time_s").verdict

    assert (verdict("cpu"), verdict("cuda"), verdict("tpu")) == ("unknown", "unknown", "regressed")


def test_one_run_of_each_decides_on_a_device_with_low_noise(make_run: MakeRun, compare: Compare, row_of: RowOf) -> None:
    """Equal runs on a TPU differ by 0.4 %: 5 % is 12 times that."""
    record = compare(repeats(make_run, "linen", (1.0,)), repeats(make_run, "nnx", (1.05,)))
    row = row_of(record, "step_time_s")
    assert (row.verdict, row.evidence) == ("regressed", "one run of each")
    assert record.headline.endswith("(by one run of each)")


def test_the_cell_shows_the_geometric_mean_of_the_repeats(make_run: MakeRun, compare: Compare, row_of: RowOf) -> None:
    record = compare(repeats(make_run, "linen", (1.0, 1.2)), repeats(make_run, "nnx", (1.0, 5.0, 1.2)))
    row = row_of(record, "step_time_s")
    assert (row.baseline, row.candidate) == pytest.approx((1.2**0.5, 6 ** (1 / 3)))
    assert row.baseline_text == "1.0954"  # all steps of a run are equal: no scatter to show


SLOW = (9.0, 2.0, 2.0, 2.0, 2.0, 2.0)
KNOWN_SOURCE = {"versions": {"jax": "0.12.0", SOURCE: "f00d"}, "dirty": False}
CPU = {"environment": Environment(jax="0.12.0", jaxlib="0.12.0", backend="cpu", num_devices=1)}


def test_a_run_that_slows_down_at_its_end_is_not_the_same(make_run: MakeRun, compare: Compare, row_of: RowOf) -> None:
    even = [3.0, *[0.1] * 40]
    grows, losses = [*even[:31], *[0.2] * 10], [9.0 - n / 100 for n in range(41)]
    runs = [make_run(arm, seconds=times, losses=losses) for arm, times in (("linen", even), ("nnx", grows))]
    row = row_of(compare(runs[0], runs[1]), "step_time_s")
    assert row.verdict == "unknown"
    assert "shifts by 100 % during a run of nnx" in row.reason
    assert row_of(compare(runs[0], runs[0]), "step_time_s").verdict == "same"


def test_the_same_program_and_host_code_leave_only_noise(make_run: MakeRun, compare: Compare, row_of: RowOf) -> None:
    noisy = make_run("b", seconds=[3.0, *[0.13] * 5], plan=KNOWN_SOURCE, record=SAME_PROGRAM, reading=CPU)
    record = compare(make_run("a", plan=KNOWN_SOURCE, record=SAME_PROGRAM, reading=CPU), noisy, aa=True)
    row = row_of(record, "step_time_s")
    assert row.effect == pytest.approx(0.25, abs=0.1)  # a processor's equal runs differ by 10 %, as stated
    assert row.verdict == "same"
    assert row_of(record, "avg_step_time_s").verdict == "not judged"
    assert "noise by construction" in row.reason
    assert record.verdict == "same"


def test_one_program_and_two_host_loops_may_differ_in_time(make_run: MakeRun, compare: Compare, row_of: RowOf) -> None:
    """The Linen and the NNX trainer of one commit lower one program, and run different code around it."""
    for seconds, verdict in ((SECONDS, "unknown"), ([one + 0.2 for one in SECONDS], "regressed")):
        base = [make_run("linen", repeat=n, plan=KNOWN_SOURCE, record=SAME_PROGRAM, reading=CPU) for n in range(2)]
        nnx = {"seconds": seconds, "plan": KNOWN_SOURCE, "record": SAME_PROGRAM, "reading": CPU}
        record = compare(base, [make_run("nnx", repeat=n, **nnx) for n in range(2)])
        row = row_of(record, "step_time_s")
        assert row.verdict == record.verdict == verdict, row.reason
        assert record.equal_by_construction == ""
    assert row.reason.startswith("same program; the host loop is slower")


def test_equal_host_loops_do_not_excuse_a_difference_beyond_noise(
    make_run: MakeRun, compare: Compare, row_of: RowOf, wording: Wording
) -> None:
    slow = make_run("b", seconds=SLOW, plan=KNOWN_SOURCE, record=SAME_PROGRAM)
    record = compare(make_run("a", plan=KNOWN_SOURCE, record=SAME_PROGRAM), slow, aa=True)
    row = row_of(record, "step_time_s")
    assert record.equal_by_construction
    assert (row.verdict, row.evidence, record.verdict) == ("regressed", ONE_RUN, "regressed")
    assert row.reason.startswith("one program, source, config and software; the machine, ")
    assert "the host loop" not in record.headline
    wording("reasons", row.reason)


def test_equal_host_loops_do_not_excuse_separated_steps(make_run: MakeRun, compare: Compare, row_of: RowOf) -> None:
    """Twice as long in every step of three runs of each, which scatter so much that no t-test finds it."""
    levels = ((0.02, 0.08, 0.05), (0.4, 0.17, 0.25))
    sides = [
        [
            make_run(arm, repeat=n, seconds=[3.0, *[one] * 5], plan=KNOWN_SOURCE, record=SAME_PROGRAM, reading=CPU)
            for n, one in enumerate(side)
        ]
        for arm, side in zip("ab", levels, strict=True)
    ]
    row = row_of(compare(*sides), "step_time_s")
    assert (row.verdict, row.evidence) == ("regressed", "3 runs of each"), row.reason
    assert "slowest" in row.reason


@pytest.mark.parametrize(
    ("codes", "verdict"),
    [
        (("c0de", "c0de"), "same"),
        (("c0de", "0ther"), "unknown"),
        (("", ""), "unknown"),
        (("c0de", ""), "unknown"),
    ],
)
def test_sources_with_equal_code_leave_only_noise(
    codes: tuple[str, str],
    verdict: str,
    make_run: MakeRun,
    compare: Compare,
    row_of: RowOf,
    wording: Wording,
) -> None:
    plans = [
        {"versions": {"jax": "0.12.0", SOURCE: f"{n}"}, "commit": f"{n}" * 40, "code": code}
        for n, code in enumerate(codes)
    ]
    base = make_run("main", plan=plans[0], record=SAME_PROGRAM, reading=CPU)
    branch = make_run("branch", seconds=[3.0, *[0.13] * 5], plan=plans[1], record=SAME_PROGRAM, reading=CPU)
    row = row_of(compare(base, branch), "step_time_s")
    assert row.verdict == verdict
    assert row.reason.startswith("noise by construction: ") is (verdict == "same")
    wording("reasons", row.reason)


def test_a_module_that_shadows_a_package_is_different_code(make_run: MakeRun, compare: Compare, row_of: RowOf) -> None:
    # the source digest covers model/ and configs/ only; the trainer would import a `jax.py` in its checkout
    plans = [KNOWN_SOURCE | {"commit": f"{n}" * 40, "code": f"c0de{n}"} for n in range(2)]
    base = make_run("main", plan=plans[0], record=SAME_PROGRAM)
    slow = make_run("branch", seconds=SLOW, plan=plans[1], record=SAME_PROGRAM)
    assert row_of(compare(base, slow), "step_time_s").verdict == "regressed"


@pytest.mark.parametrize("other", [{"commit": "b" * 40}, {"config": {"steps": 6, "log_period": 1}}, {"dirty": True}])
def test_a_branch_that_sleeps_is_slower_with_the_same_program(
    other: dict[str, Any],
    make_run: MakeRun,
    compare: Compare,
    row_of: RowOf,
    wording: Wording,
) -> None:
    slow = make_run("nnx", seconds=SLOW, plan=other, record=SAME_PROGRAM)
    record = compare(make_run("linen", plan={}, record=SAME_PROGRAM), slow)
    row = row_of(record, "step_time_s")
    assert row.verdict == "regressed"
    assert row.reason.startswith("same program; ")
    assert "host loop" in row.reason
    wording("reasons", row.reason)
    assert exit_status([record]) == 1


def test_the_part_of_a_step_that_grew_is_named(
    make_run: MakeRun, compare: Compare, row_of: RowOf, wording: Wording
) -> None:
    def run(arm: str, commit: str, waits: float) -> RunRecord:
        parts = {"device_s": 0.1, "input_s": 0.01 + waits, "save_s": 0.0, "report_s": 0.001}
        seconds = [3.0, *[0.112 + waits] * 5]
        columns = {"step": range(6), "loss": [9.0, 8.5, 8.0, 7.5, 7.25, 7.0], "step_time_s": seconds}
        metrics = pl.DataFrame({**columns, **{name: [value] * 6 for name, value in parts.items()}})
        record = {**SAME_PROGRAM, "metrics": metrics}
        return make_run(arm, seconds=seconds, plan={"commit": commit * 40}, record=record)

    row = row_of(compare(run("linen", "a", 0.0), run("nnx", "b", 0.02)), "step_time_s")
    assert "input +20 ms per step" in row.reason
    wording("reasons", row.reason)


def test_too_few_steps_for_a_median(make_run: MakeRun, compare: Compare, row_of: RowOf) -> None:
    short = {"seconds": (3.0, 0.1), "losses": (9.0, 8.0)}
    row = row_of(compare(make_run("linen", **short), make_run("nnx", **short)), "step_time_s")
    assert (row.baseline_text, row.verdict) == ("too few steps", "unknown")
    assert "train more steps" in row.reason
    runs = (make_run(arm, **short, plan=KNOWN_SOURCE, record=SAME_PROGRAM) for arm in ("a", "b"))
    assert row_of(compare(*runs), "step_time_s").verdict == "same"


@pytest.mark.parametrize("seconds", [(3.0, 0.194, 0.064), (3.0, 0.0, 0.1), (3.0, 0.0, 0.0)])
def test_one_quick_step_beside_a_slow_one_is_no_evidence(
    seconds: tuple[float, ...], make_run: MakeRun, compare: Compare, row_of: RowOf
) -> None:
    short = {"seconds": seconds, "losses": (9.0, 8.0, 7.0)}  # the quick one is a dispatch artefact, by the rule
    calm = {"seconds": (3.0, 0.1, 0.1), "losses": (9.0, 8.0, 7.0)}
    for arms in ((short, calm), (calm, short)):
        record = compare(make_run("linen", **arms[0]), make_run("nnx", **arms[1]))
        assert row_of(record, "step_time_s").verdict == "unknown"
        proof: dict[str, Any] = {"plan": KNOWN_SOURCE, "record": SAME_PROGRAM}
        runs = (make_run(arm, **how, **proof) for arm, how in zip("ab", arms, strict=True))
        assert row_of(compare(*runs), "step_time_s").verdict == "same"


def test_stalls_and_the_first_step_are_shown_and_not_judged(make_run: MakeRun, compare: Compare, row_of: RowOf) -> None:
    record = compare(repeats(make_run, "linen", (1.0, 1.01, 0.99)), repeats(make_run, "nnx", (1.0, 1.01, 0.99)))
    for metric in ("stall_s", "first_step_s"):
        row = row_of(record, metric)
        assert (row.verdict, row.threshold_text) == ("not judged", "")
    assert record.verdict == "same"


def test_mfu_agrees_with_maxtexts_guide(make_run: MakeRun, compare: Compare, row_of: RowOf) -> None:
    """764.67 TFLOP in 5.667 s are 29.40 % of the 459 TFLOP/s of a TPU v5p, which JAX calls v5."""

    def record_on(kind: str | None) -> ComparisonRecord:
        device = Environment(jax="0.12.0", backend="tpu", device_kind=kind)
        known = {"environment": device, "flops": Flops(total_tflops=764.67)}
        times = {"seconds": (44.9, 5.667, 5.667, 5.667), "losses": (9.0, 8.0, 7.0, 6.0)}
        return compare(make_run("linen", reading=known, **times), make_run("nnx", reading=known, **times))

    row = row_of(record_on("TPU v5"), "mfu")
    assert (row.verdict, row.baseline_text, row.candidate_text) == ("not judged", "29.40", "29.40")
    for unknown in (None, "NVIDIA GeForce RTX 4090"):
        assert "mfu" not in {row.metric for row in record_on(unknown).rows}


def test_another_version_of_jax_is_a_change(make_run: MakeRun, compare: Compare, row_of: RowOf) -> None:
    older = make_run("nnx", reading={"environment": Environment(jax="0.8.1")})
    row = row_of(compare(make_run("linen"), older), "jax")
    assert (row.verdict, row.baseline_text, row.candidate_text) == ("changed", "0.12.0", "0.8.1")
