"""Finds the plans whose steps stand for a case's runs in float64: the case on this machine's processors, if need be."""

from collections.abc import Sequence
from pathlib import Path

from configs.comparison import load_target
from tasks.experiments.recordings import Both
from tasks.experiments.same_function import is_on_cpu
from tasks.records.plan import RunPlan
from tasks.resolve.plans import Request, hash_identity, resolve
from tasks.resolve.trainers import trainer_class

ONE_DEVICE, EIGHT_DEVICES = "cpu", "cpu-8"


def find_stand_ins(request: Request, case: str, plans: Sequence[RunPlan], out: Path) -> tuple[Both[RunPlan], str]:
    """Return both arms' plans on processors, and what they stand for ("" if they are the plans of the runs).

    plans: of the case's runs, of both arms. For a GPU, a TPU or a cluster, the same case with the small model of the
    target for processors; on eight virtual devices if the target has several. Raises ValueError if it cannot be
    resolved here.
    """
    arms = list(dict.fromkeys(plan.arm for plan in plans))
    first = [next(plan for plan in plans if plan.arm == arm) for arm in arms]
    if all(map(is_on_cpu, first)):
        return (first[0], first[1]), ""
    place = EIGHT_DEVICES if load_target(first[0].target).devices > 1 else ONE_DEVICE
    changes = {"cases": (case,), "target": place, "model": None, "repeats": 1, "blessed": ""}
    found = [keep_hardware(*pair) for pair in zip(resolve(request.replace(**changes), out), first, strict=True)]
    model = load_target(place).model
    return (found[0], found[1]), f"the model {model} on {place} stands for the runs on {first[0].target}"


def keep_hardware(plan: RunPlan, of: RunPlan) -> RunPlan:
    """Return a plan whose step has the kernels of the plan `of`, which are interpreted here.

    Returns `plan` itself for MaxText, which chooses its kernels by the devices that it has.
    """
    hardware = of.config.get("hardware")
    if not trainer_class(plan.trainer).has_kernels_of_key or hardware == plan.config["hardware"]:
        return plan
    identity = hash_identity({"plan": plan.identity, "hardware": hardware})
    return plan.replace(config=plan.config | {"hardware": hardware}, identity=identity)
