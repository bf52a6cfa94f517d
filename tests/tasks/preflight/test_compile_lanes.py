"""The order in which compiles begin."""

from collections.abc import Callable

from tasks.preflight.compile_lanes import order_compiles
from tasks.records import RunPlan


def test_the_second_arms_of_a_group_of_cases_come_last(make_plan: Callable[..., RunPlan]) -> None:
    plans = [make_plan("", arm=arm, case=case) for case in ("01", "02", "03") for arm in ("linen", "nnx")]
    order = [[(plan.case, plan.arm) for plan in group] for group in order_compiles(plans, 2)]
    assert order == [
        [("01", "linen"), ("02", "linen"), ("01", "nnx"), ("02", "nnx")],
        [("03", "linen"), ("03", "nnx")],
    ]
