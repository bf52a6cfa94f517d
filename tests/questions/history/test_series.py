"""Series from the history; changes of two arms are attributed to the machine, the baseline or the candidate."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from questions.history.history_table import append_comparison, load_history
from questions.history.series import Night, Series, find_series, judge, judge_history
from tasks.records.compared_case import ComparisonRecord
from tasks.store.store import Store
from tests.wording.sentences import Wording

type Shift = Callable[[int], float]


def flat(_: int) -> float:
    return 1.0


def from_20(night: int) -> float:
    return 1.2 if night >= 20 else 1.0


def make(
    baseline: Shift,
    candidate: Shift,
    *,
    jax: Shift = flat,
    commit: Shift = flat,
    better: str = "lower",
    nights: int = 40,
) -> Series:
    rng = np.random.default_rng(0)
    made = []
    for n in range(nights):
        shared = 1 + 0.003 * rng.normal()  # the noise of the machine in this night
        made.append(
            Night(
                comparison_id=f"c{n}",
                time=datetime(2026, 9, 1, 3, tzinfo=UTC) + timedelta(days=n),
                baseline=0.1 * shared * baseline(n) * (1 + 0.003 * rng.normal()),
                candidate=0.1 * shared * candidate(n) * (1 + 0.003 * rng.normal()),
                runs=(1, 1),
                baseline_commit=f"b{commit(n)}",
                candidate_commit=f"c{n}",
                baseline_jax=f"0.{jax(n)}",
                candidate_jax=f"0.{jax(n)}",
                verdict="same",
                same_program=False,
            )
        )
    return Series(
        comparison="main-vs-branch", case="01_base", target="cpu", metric="step_time_s", unit="s", better=better,
        baseline_arm="main", candidate_arm="branch", nights=tuple(made),
    )  # fmt: skip


def test_a_change_of_both_arms_is_the_machines_or_mains_not_the_branchs(wording: Wording) -> None:
    judged = judge(make(from_20, from_20))
    assert [(event.line, event.cause) for event in judged.events] == [("baseline", "shared"), ("candidate", "shared")]
    event = judged.events[0]
    assert event.meaning.startswith("the machine drifted, ")
    wording("reasons", event.meaning)
    assert (event.before.comparison_id, event.after.comparison_id) == ("c19", "c20")
    assert event.worse
    assert event.change.relative == pytest.approx(0.2, abs=0.01)


def test_suspects_that_changed_with_the_baseline_are_named(wording: Wording) -> None:
    judged = judge(make(from_20, from_20, jax=from_20, commit=from_20))
    assert "JAX (0.1.0 became 0.1.2)" in judged.events[0].meaning
    wording("reasons", judged.events[0].meaning)


def test_a_change_of_the_candidate_alone_is_the_candidates() -> None:
    judged = judge(make(flat, from_20))
    causes = {event.line: (event.cause, event.worse) for event in judged.events}
    assert causes == {"candidate": ("candidate", True), "ratio": ("candidate", True)}
    assert "the change is in branch" in next(e.meaning for e in judged.events if e.line == "ratio")


def test_a_change_of_the_baseline_alone_is_the_baselines(wording: Wording) -> None:
    judged = judge(make(from_20, flat))
    causes = {event.line: event.cause for event in judged.events}
    assert causes == {"baseline": "baseline", "ratio": "baseline"}
    ratio = next(event for event in judged.events if event.line == "ratio")
    assert ratio.meaning.endswith(" in main")
    wording("reasons", ratio.meaning)


def test_a_higher_rate_is_an_improvement() -> None:
    judged = judge(make(flat, from_20, better="higher"))
    assert {event.worse for event in judged.events} == {False}
    assert {event.worse for event in judge(make(flat, from_20, better="equal")).events} == {None}


def test_a_rate_that_follows_from_the_step_time_has_its_cause() -> None:
    """The candidate is slower from night 20 on. Its printed rate is of one step: too noisy for a change of the ratio,
    so that alone it seems to be shared by both arms."""
    step = make(flat, from_20)
    drawn = [night.baseline for night in make(lambda n: 1 / from_20(n), flat).nights]
    nights = [night.replace(candidate=value, baseline=value) for night, value in zip(step.nights, drawn, strict=True)]
    rate = step.replace(metric="tflops_per_device", better="higher", nights=tuple(nights))
    assert {event.cause for event in judge(rate).events} == {"shared"}  # alone, it has no better explanation
    judged = judge_history([rate, step])
    meanings = {event.meaning for item in judged for event in item.events}
    assert {event.cause for item in judged for event in item.events} == {"candidate"}
    assert not any("not your branch" in meaning for meaning in meanings)
    assert {event.worse for item in judged for event in item.events} == {True}
    (only,) = judge_history([rate, step], ["tflops_per_device"])  # the step time decides, also if it is not shown
    assert only == judged[0]


def test_the_drift_of_a_rate_is_not_called_the_machines() -> None:
    drift = make(lambda n: 1 - 0.004 * n, lambda n: 1 - 0.004 * n, better="higher")
    rate = drift.replace(metric="tflops_per_device")
    (judged,) = judge_history([rate])
    assert not any("not your branch" in note for note in judged.notes)


def test_a_slow_machine_is_distinguished_from_the_branch() -> None:
    judged = judge(make(lambda n: 1 + 0.004 * n, lambda n: 1 + 0.004 * n))
    assert not judged.events
    assert any("machine or main drifted, not your branch" in note for note in judged.notes)


def test_a_calm_series_has_no_event() -> None:
    judged = judge(make(flat, flat))
    assert not judged.events
    assert not judged.notes


def test_few_nights_give_the_number_of_needed_nights(wording: Wording) -> None:
    judged = judge(make(flat, flat, nights=4))
    (note,) = judged.notes
    assert note.startswith("4 nights: ")
    wording("reasons", note)


def test_series_come_out_of_the_history(store: Store, night: Callable[..., ComparisonRecord]) -> None:
    for day in range(1, 6):
        append_comparison(night(day, seconds=0.1 * day, candidate_s=0.2 * day, repeats=2, commit=f"c{day:06}"), store)
    history = load_history(store.files)
    (series,) = (one for one in find_series(history, case="01_base") if one.metric == "step_time_s")
    assert (series.comparison, series.target, series.unit, series.better) == ("linen-vs-nnx", "cpu", "s", "lower")
    assert (series.baseline_arm, series.candidate_arm) == ("linen", "nnx")
    assert [night.baseline for night in series.nights] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5])
    assert [night.ratio for night in series.nights] == pytest.approx([2.0] * 5)
    assert [night.runs for night in series.nights] == [(2, 2)] * 5
    assert series.nights[2].baseline_commit == "c000003"
    since = find_series(history, since=datetime(2026, 11, 3, tzinfo=UTC))
    assert {len(series.nights) for series in since} == {3}
    assert find_series(history, case="99_none") == []
    assert find_series(history, target="v6e-32") == []
    assert len(find_series(history)) == len(set(history["metric"]))
