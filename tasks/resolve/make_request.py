"""Turns the options of a flow into the request that its plans are made from."""

from uuid import uuid4

from tasks.resolve.arm_trainers import ArmOverrides
from tasks.resolve.options import ArmsOptions, CompareOptions, PreflightMore, PreflightOptions
from tasks.resolve.plans import Request
from tasks.store.baselines import is_baseline_place


def request_comparison(options: CompareOptions) -> Request:
    """Return the request that trains the arms; without the first, if `baseline` names blessed runs."""
    asked = _request(options, options.more)
    blessed = options.baseline if is_baseline_place(options.baseline) else ""
    baseline = None if blessed else asked.arms.baseline
    arms = asked.arms.model_copy(update={"aa": options.more.aa, "baseline": baseline})
    return asked.model_copy(update={"repeats": options.more.repeats, "blessed": blessed, "arms": arms})


def request_compiles(options: PreflightOptions) -> Request:
    """Return the request that compiles the arms for a topology."""
    return _request(options, options.more).model_copy(update={"compile_only": True})


def _request(options: ArmsOptions, more: PreflightMore) -> Request:
    """Return the request of the common options; with --fresh, its runs get an identity of their own at each call."""
    return Request(
        comparison=options.comparison,
        cases=options.cases,
        target=options.target or None,
        model=more.model or None,
        overrides=more.overrides,
        fresh=uuid4().hex if more.fresh else "",
        arms=ArmOverrides(
            baseline=options.baseline or None,
            branch=options.branch or None,
            repository=options.repository or None,
            software=more.software,
        ),
    )
