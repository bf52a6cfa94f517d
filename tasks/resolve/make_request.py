"""Converts the options of the flows `compare` and `preflight` into a Request, from which run plans are made."""

from uuid import uuid4

from tasks.resolve.arm_trainers import ArmOverrides
from tasks.resolve.options import ArmsOptions, CompareOptions, PreflightMore, PreflightOptions
from tasks.resolve.plans import Request
from tasks.store.baselines import is_baseline_place


def request_comparison(options: CompareOptions) -> Request:
    """Return the request that trains both arms; if `baseline` names blessed runs, only the second arm."""
    asked = _request(options, options.more)
    blessed = options.baseline if is_baseline_place(options.baseline) else ""
    baseline = None if blessed else asked.arms.baseline
    arms = asked.arms.model_copy(update={"aa": options.more.aa, "baseline": baseline})
    return asked.model_copy(update={"repeats": options.more.repeats, "blessed": blessed, "arms": arms})


def request_compiles(options: PreflightOptions) -> Request:
    """Return the request that compiles both arms for the target's topology."""
    return _request(options, options.more).model_copy(update={"compile_only": True})


def _request(options: ArmsOptions, more: PreflightMore) -> Request:
    """Return the request with the common options. With --fresh, each call gives its runs new identities."""
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
