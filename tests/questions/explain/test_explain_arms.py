"""Occasions for an explanation, its first sentence, and comparisons that cannot be explained."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from questions.explain import explain_arms
from questions.explain.explain_arms import ObservedArm, _say_headline
from questions.explain.profiles import GAP
from questions.explain.subjects import find_subject, name_explainable_differences
from tasks.experiments import runnable_arms
from tasks.experiments.runnable_arms import plans_of, wants_explanation
from tasks.records.compared_case import ComparisonRecord, Floor, MetricDiff
from tasks.records.explanation import Explanation, ProgramExplanation, TimeDifference, TimeExplanation
from tasks.records.observation import LoopRecord, Observation, Root, TensorComparison
from tasks.records.plan import RunPlan, SharedStart
from tasks.records.run import START_FILE, START_FOLDER, StartReport
from tests.wording.sentences import Wording

pytestmark = pytest.mark.flows

type MakeRecord = Callable[..., ComparisonRecord]

SAME = ProgramExplanation(
    answer="same computation in another order", sentence="both arms lower the same computation", hashes=("a", "a")
)
OTHER = ProgramExplanation(answer="differs", sentence="the programs differ at 1 place: fused", hashes=("a", "b"))
EQUAL = TensorComparison(sentence="no tensor differs", tensors=(9, 9))


def test_a_differing_tensor_is_reported_first() -> None:
    root = Root(kind="constant", sentence="an epsilon")
    found = TensorComparison(sentence="equal up to mlpwi_1", roots=(root,), tensors=(9, 9))
    assert _say_headline(found, OTHER, None, None) == "equal up to mlpwi_1"


@pytest.mark.parametrize("program", [SAME, OTHER])
def test_a_difference_of_the_compiled_programs_alone_is_reported_as_such(
    program: ProgramExplanation, wording: Wording
) -> None:
    rounded = EQUAL.replace(different_results=("parameter w",))
    found = _say_headline(rounded, program, None, None)
    assert found.startswith("one function in float64; ")
    assert "parameter w" in found
    wording("reasons", found)


def test_one_computation_leaves_only_the_arguments_and_the_host(wording: Wording) -> None:
    wording("reasons", _say_headline(EQUAL, SAME, None, None))


@pytest.mark.parametrize(("kept", "shared"), [({}, True), ({"state.w": "shape (2,) here, (3,) there"}, False)])
def test_own_first_weights_explain_nothing_if_the_judged_runs_shared_them(
    kept: dict[str, str], shared: bool, plan_of: Callable[..., RunPlan], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plan = plan_of("right").replace(start=SharedStart(taken_from="left"))
    report = StartReport(replaced=("state.v",), kept=kept, own_values=tuple(kept))
    file = Path(plan.directory) / START_FOLDER / START_FILE
    file.parent.mkdir()
    file.write_text(report.model_dump_json())
    arm = ObservedArm(plan, "left", tmp_path, Observation(step="train_step"))
    monkeypatch.setattr(explain_arms, "observe", lambda *_, **__: arm)
    monkeypatch.setattr(
        explain_arms,
        "explain_observed",
        lambda _, *, starts_shared, measured, function: Explanation(headline=f"{starts_shared}"),
    )
    assert explain_arms.explain_plans((plan, plan), ("left", "right"), tmp_path).headline == str(shared)


@pytest.mark.parametrize(
    ("states", "steps"),
    [
        ((), [2]),
        (("step 0", "step 1", "step 2"), [2, 0]),
        (("step 2", "a later state"), [2]),
        (("step 1",), [1]),
        (("weights × 10",), [2]),
    ],
)
def test_a_step_whose_results_differ_is_looked_at(states: tuple[str, ...], steps: list[int]) -> None:
    assert explain_arms.choose_steps(states) == steps


def test_a_batch_that_does_not_take_the_changed_path_is_followed_by_the_first_that_does(
    plan_of: Callable[..., RunPlan], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plan = plan_of("right")

    def observe(_plan: RunPlan, name: str, folder: Path, _start: Any, *, step: int, **_: Any) -> ObservedArm:
        return ObservedArm(plan, name, folder, Observation(step=f"train_step at {step}"))

    def explain(arms: tuple[ObservedArm, ObservedArm], **_: Any) -> Explanation:
        step = str(arms[0].observation.step)
        roots = () if step == "train_step at 2" else (Root(kind="result", sentence=step),)
        return Explanation(headline=step, tensors=TensorComparison(sentence=step, tensors=(9, 9), roots=roots))

    monkeypatch.setattr(explain_arms, "observe", observe)
    monkeypatch.setattr(explain_arms, "explain_observed", explain)
    names = ("left", "right")
    found = explain_arms.explain_plans((plan, plan), names, tmp_path, states=("step 1", "step 2"))
    assert found.headline == "train_step at 1"
    assert explain_arms.explain_plans((plan, plan), names, tmp_path).headline == "train_step at 2"


MADE = (("/tree/train.py", 32, "update", "train.py", 19),)


@pytest.mark.parametrize(
    ("jits", "slower", "named"),
    [
        (((), MADE), 1, True),
        ((MADE, ()), 0, True),
        ((MADE, (("/other/train.py", 40, "update", "train.py", 19),)), 1, False),  # in both arms
        (((), (("/tree/train.py", 32, "update", "train.py", 4),)), 1, False),  # in every fifth step
        ((MADE, ()), 1, False),  # the other arm is slower
    ],
)
def test_a_host_that_compiles_in_each_step_has_the_line_that_makes_the_function(
    jits: tuple[Any, Any], slower: int, named: bool, plan_of: Callable[..., RunPlan], tmp_path: Path
) -> None:
    arms = [
        ObservedArm(plan_of(name), name, tmp_path, Observation(step="step", loop=LoopRecord(calls=20, jits=its)))
        for name, its in zip(("main", "branch"), jits, strict=True)
    ]
    seconds = (0.001, 1.5) if slower else (1.5, 0.001)
    row = TimeDifference(what=GAP, baseline_s=seconds[0], candidate_s=seconds[1], sentence="1,499 ms more")
    spent = TimeExplanation(sentence="a step: 1,499 ms more", steps=(20, 20), step_s=(0.1, 1.6), differences=(row,))
    found = explain_arms.name_compiles(spent, (arms[0], arms[1]))
    lines = found.differences[0].baseline_line, found.differences[0].candidate_line
    assert [line.place if line else "" for line in lines] == [
        "train.py:32 update" if named and side == slower else "" for side in (0, 1)
    ]
    assert ("train.py:32 update" in found.sentence) == named


@pytest.fixture
def record() -> MakeRecord:
    def make(verdict: str = "same", metric: str = "loss_per_step", **changes: Any) -> ComparisonRecord:
        row = MetricDiff.model_construct(metric=metric, title="Loss, step by step", verdict=verdict)
        fields: dict[str, Any] = {"rows": (row,), "floors": (), "aa": False, "programs": None} | changes
        arm = type("Arm", (), {"has_died": False})()
        return ComparisonRecord.model_construct(baseline=arm, candidate=arm, **fields)

    return make


@pytest.mark.parametrize(
    ("verdict", "wanted"), [("regressed", True), ("changed", True), ("same", False), ("unknown", False)]
)
def test_a_difference_is_an_occasion(record: MakeRecord, verdict: str, wanted: bool) -> None:
    assert bool(name_explainable_differences(record(verdict))) is wanted


def test_another_program_is_an_occasion_and_a_control_is_not(record: MakeRecord) -> None:
    floor = Floor(name="same program", holds=False, evidence="")
    assert name_explainable_differences(record(floors=(floor,))) == "the program"
    assert name_explainable_differences(record("regressed", aa=True)) == ""
    assert name_explainable_differences(record("regressed", metric="stall_s")) == ""


def test_a_comparison_may_disable_its_explanation(monkeypatch: pytest.MonkeyPatch) -> None:
    assert wants_explanation("linen-vs-nnx")
    off = type("Comparison", (), {"explain": "off"})()
    monkeypatch.setattr(runnable_arms, "load_comparison", lambda _name: off)
    assert not wants_explanation("linen-vs-nnx")


def test_a_comparison_of_another_target_is_not_explained_automatically() -> None:
    assert not wants_explanation("no-such-comparison")
    assert plans_of([]) is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name one comparison"),
        (["a", "b", "c"], "name one comparison"),
        (["nothing-like-it"], "no comparison 'nothing-like-it'.*there is none"),
        (["no/run", "no/other"], "no/run: is no run's folder"),
    ],
)
def test_a_comparison_without_an_explanation_is_an_error_with_a_remedy(
    words: list[str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        find_subject(words, str(tmp_path))
