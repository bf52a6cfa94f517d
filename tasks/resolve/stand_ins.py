"""Resolves the plans whose steps stand for a case's runs in float64: the case on this machine's processors."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from configs.comparison import load_target
from configs.frozen import Frozen
from tasks.records.plan import RunPlan
from tasks.resolve.plans import Request, hash_identity, resolve
from tasks.resolve.trainers import trainer_class

ONE_DEVICE, EIGHT_DEVICES = "cpu", "cpu-8"

type Both[T] = tuple[T, T]


class StandIns(Frozen):
    """The plans that stand for a case's runs on processors."""

    plans: Both[RunPlan] | None = None  # None: the runs' own plans are on processors, or `problem` tells why not
    stands_for: str = ""  # how they differ from the plans of the runs; empty if they are these
    problem: ValueError | None = None

    def choose(self, own: Sequence[RunPlan]) -> Both[RunPlan]:
        """Return both arms' plans on processors. own: of the runs. Raises ValueError if they cannot be resolved."""
        if self.problem is not None:
            raise self.problem
        if self.plans is not None:
            return self.plans
        left, right = first_of_arms(own)
        return left, right


def first_of_arms(plans: Iterable[RunPlan]) -> list[RunPlan]:
    """Return the first plan of each arm."""
    first: dict[str, RunPlan] = {}
    for plan in plans:
        first.setdefault(plan.arm, plan)
    return list(first.values())


def resolve_stand_ins(request: Request, plans: Sequence[RunPlan], out: Path) -> dict[str, StandIns]:
    """Return case → the plans that stand for its runs. plans: of the request, the plans of a case together.

    A case that cannot be resolved here has the error in its place, since most cases need no stand-ins.
    """
    found = {}
    for case, own in groupby(plans, key=lambda plan: plan.case):
        try:
            found[case] = _resolve(request, case, first_of_arms(own), out)
        except ValueError as error:
            found[case] = StandIns(problem=error)
    return found


def _resolve(request: Request, case: str, first: Sequence[RunPlan], out: Path) -> StandIns:
    """Return the plans that stand for a case's runs. first: a plan of each arm that is trained.

    For a GPU, a TPU or a cluster, they are of the same case with the small model of the target for processors; on eight
    virtual devices if the target has several. Raises ValueError if they cannot be resolved here.
    """
    if all(map(is_on_cpu, first)):
        return StandIns()
    place = EIGHT_DEVICES if load_target(first[0].target).devices > 1 else ONE_DEVICE
    changes = {"cases": (case,), "target": place, "model": None, "repeats": 1, "blessed": ""}
    of = {plan.arm: plan for plan in first}
    left, right = (keep_hardware(plan, of.get(plan.arm, first[0])) for plan in resolve(request.replace(**changes), out))
    model = load_target(place).model
    return StandIns(
        plans=(left, right), stands_for=f"the model {model} on {place} stands for the runs on {first[0].target}"
    )


def keep_hardware(plan: RunPlan, of: RunPlan) -> RunPlan:
    """Return a plan whose step has the kernels of the plan `of`, which are interpreted here.

    Returns `plan` itself for MaxText, which chooses its kernels by the devices that it has.
    """
    hardware = of.config.get("hardware")
    if not trainer_class(plan.trainer).has_kernels_of_key or hardware == plan.config["hardware"]:
        return plan
    identity = hash_identity({"plan": plan.identity, "hardware": hardware})
    return plan.replace(config=plan.config | {"hardware": hardware}, identity=identity)


def is_on_cpu(plan: RunPlan) -> bool:
    """Return whether a plan's run computes on this machine's processors."""
    return plan.backend == "local" and plan.environment.get("JAX_PLATFORMS") == "cpu"
