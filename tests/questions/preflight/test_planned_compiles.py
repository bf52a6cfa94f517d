"""Missing compilers, reported once, and the order in which compiles begin."""

from collections.abc import Callable

from questions.preflight.planned_compiles import find_missing_compilers, order_compiles
from tasks.records.plan import RunPlan
from tests.wording.sentences import Wording


def test_a_missing_compiler_is_reported_once_for_all_arms_that_share_it(
    make_plan: Callable[..., RunPlan], wording: Wording
) -> None:
    plans = [
        *(make_plan("", arm=arm, case=case) for case in ("01_base", "04_int8") for arm in ("linen", "nnx")),
        make_plan("", arm="newer", software=("jax==0.12.0.1",)),
        make_plan("", arm="has it", versions={"libtpu": "0.0.50"}),
    ]
    ours, newer = find_missing_compilers(plans)
    assert ours.endswith("for 'linen' and 'nnx': uv sync --extra tpu")
    assert "for 'newer': --with 'newer:jax[tpu]', " in newer
    for problem in (ours, newer):
        wording("errors", problem)
    assert find_missing_compilers(plans[-1:]) == []


def test_the_second_arms_of_a_group_of_cases_come_last(make_plan: Callable[..., RunPlan]) -> None:
    plans = [make_plan("", arm=arm, case=case) for case in ("01", "02", "03") for arm in ("linen", "nnx")]
    order = [[(plan.case, plan.arm) for plan in group] for group in order_compiles(plans, 2)]
    assert order == [
        [("01", "linen"), ("02", "linen"), ("01", "nnx"), ("02", "nnx")],
        [("03", "linen"), ("03", "nnx")],
    ]
