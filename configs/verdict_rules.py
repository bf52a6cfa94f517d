"""Collects all rules of a comparison's verdict from its files, to be stored in the plans."""

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
    """The rules of a verdict; later edits of the files do not change them."""

    question: str
    tolerances: Mapping[str, Tolerance]  # for missing metrics, the device's noise applies
    effects: Mapping[FindingKind, Effect]
    noises: Mapping[DeviceKind, DeviceNoise]
    inert: Inert  # settings without an effect on training
    arms: tuple[str, ...] = ()  # the baseline's name and the candidate's
    declared: tuple[str, ...] = ()  # declared differences: config keys
    alike: bool = False  # a control: no difference is declared
    allowed: Mapping[str, str] = {}  # rows that may change, and why
    chips: int | None = None  # of the target, if chips are paid for
    price: float | None = None  # of one chip hour, in US dollars

    def tolerance_of_time(self, metric: str, kind: DeviceKind) -> Tolerance:
        """Return the tolerance of a time: the comparison's, else from the noise of the kind of device."""
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
    """Return the rules for a set of tolerances, with the target's price if chips are paid for."""
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
