"""Collects the rules of a comparison's verdict from the files in configs/, to be stored in the run plans."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from configs.comparison import (
    Target,
    Tolerance,
    load_comparison,
    load_effects,
    load_target,
    load_tolerances,
)
from configs.findings import Effect, FindingKind
from configs.inert import Inert, load_inert
from configs.noise import DeviceKind, DeviceNoise, load_noises
from configs.read import CONFIG_ROOT
from configs.schema import Frozen


class VerdictRules(Frozen):
    """The rules of a verdict, copied from the files, so that later edits of the files do not change a verdict."""

    question: str
    tolerances: Mapping[str, Tolerance]  # by metric; step times may be missing: then `noises` applies
    effects: Mapping[FindingKind, Effect]  # effect of each kind of finding on the verdict
    noises: Mapping[DeviceKind, DeviceNoise]  # noise of step times
    inert: Inert  # settings without an effect on training
    arms: tuple[str, ...] = ()  # the baseline's name and the candidate's
    declared: tuple[str, ...] = ()  # config keys that the arms' `set:` contains
    alike: bool = False  # the comparison is a control: its file declares no difference between the arms
    allowed: Mapping[str, str] = {}  # metric that may change → reason
    chips: int | None = None  # number of the target's devices; None unless they are paid for
    price: float | None = None  # US dollars per chip hour; None if the target does not set it

    def tolerance_of_time(self, metric: str, kind: DeviceKind) -> Tolerance:
        """Return the comparison's tolerance of a step-time metric, else one from the noise of the device kind."""
        if metric in self.tolerances:
            return self.tolerances[metric]
        noise = self.noises[kind]
        return Tolerance(relative=noise.tolerance, why=noise.why, least=noise.least, least_why=noise.why)


def load_verdict_rules(comparison: str, target: str, *, root: Path = CONFIG_ROOT) -> VerdictRules:
    """Return the rules of a comparison on a target. Raises ConfigError."""
    spec, place = load_comparison(comparison, root=root), load_target(target, root=root)
    declared = tuple(sorted({key for arm in spec.arms for key in arm.set}))
    apart = len({spec.trainer_of(arm) for arm in spec.arms}) > 1 or any(arm.ref for arm in spec.arms) or declared
    return make_rules(
        spec.question,
        load_tolerances(spec.tolerances, root=root),
        load_effects(spec.comparability, comparison, root=root),
        place,
        root=root,
        arms=tuple(arm.name for arm in spec.arms),
        declared=declared,
        alike=not apart,
        allowed=spec.allow,
    )


def make_rules(
    question: str,
    tolerances: Mapping[str, Tolerance],
    effects: Mapping[FindingKind, Effect],
    target: Target | None = None,
    *,
    root: Path = CONFIG_ROOT,
    **given: Any,
) -> VerdictRules:
    """Return the rules, with configs' noise and inert settings and the target's price; given: other fields."""
    paid = target is not None and target.hires_chips
    return VerdictRules(
        question=question,
        tolerances=tolerances,
        effects=effects,
        noises=load_noises(root=root),
        inert=load_inert(),
        chips=target.devices if target is not None and paid else None,
        price=target.dollars_per_chip_hour if target is not None else None,
        **given,
    )
