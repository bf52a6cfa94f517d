"""Orders the planned compiles, and finds missing TPU compilers.

A lane runs one compile at a time. An arm is one of the two compared versions.
"""

from collections.abc import Iterable
from itertools import batched, groupby

from tasks.records.plan import RunPlan


def order_compiles(plans: Iterable[RunPlan], lanes: int) -> list[list[RunPlan]]:
    """Return the plans in groups of at most `lanes` cases; in a group, all first arms precede the second arms.

    This order lets a second arm with an equal program reuse the first arm's compile. In `plans`,
    the plans of a case must be neighbours.
    """
    cases = [list(case) for _, case in groupby(plans, key=lambda plan: plan.case)]
    return [[plan for arm in zip(*some, strict=True) for plan in arm] for some in batched(cases, lanes)]


def find_missing_compilers(plans: Iterable[RunPlan]) -> list[str]:
    """Return messages with install commands for the arms without libtpu, the TPU compiler; empty if all have it.

    One message is for all arms that use maxview's packages; each other arm has its own.
    """
    lacking = {plan.arm: plan for plan in plans if "libtpu" not in plan.versions}
    sharing = " and ".join(f"'{arm}'" for arm, plan in lacking.items() if not plan.software)
    start = "libtpu, which compiles for TPUs, is not installed for"
    return [
        *([f"{start} {sharing}: uv sync --extra tpu"] if sharing else []),
        *(
            f"{start} '{arm}': --with '{arm}:jax[tpu]', or packages: ['jax[tpu]'] in the comparison's file"
            for arm, plan in lacking.items()
            if plan.software
        ),
    ]
