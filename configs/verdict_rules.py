"""Loads the rules of a comparison's verdict from the files in configs/.

The rules are the tolerances, the effects of findings, the noise of step times, and the inert settings (settings that
may differ). Each run plan stores a copy of the rules.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Field, ValidationError, model_validator

from configs.comparison import Size, Target, load_comparison, load_target, tolerance_names
from configs.errors import ConfigError
from configs.findings import Effect, Effects, FindingKind, load_rules, read_rules
from configs.frozen import Frozen
from configs.load import explain_errors, read_entries
from configs.names import find
from configs.read import CONFIG_ROOT, origin_of, read_yaml, to_python

Share = Annotated[float, Field(gt=0, lt=10, allow_inf_nan=False, strict=True)]
DeviceKind = Literal["tpu", "gpu", "cpu", "cpu_time"]  # cpu_time: not a device, but a step's CPU time


class Tolerance(Frozen):
    """The largest accepted difference between the arms, and why.

    `relative`: as a fraction of the baseline's value; `absolute`: in the metric's unit; exactly one of them is set.
    `least`: for a noisy metric, smaller differences are not reported, even if they are statistically certain; in the
    unit of `relative` or `absolute`.
    """

    relative: Size | None = None
    absolute: Size | None = None
    why: Annotated[str, Field(min_length=1)]
    least: Size | None = None
    least_why: Annotated[str, Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if (self.relative is None) == (self.absolute is None):
            raise ValueError("set exactly one of relative and absolute")
        if (self.least is None) != (self.least_why is None):
            raise ValueError("set least and least_why together")
        if self.least is not None and self.least > max(self.relative or 0.0, self.absolute or 0.0):
            raise ValueError(f"least ({self.least:g}) must not be more than the tolerance")
        return self


def load_tolerances(name: str, *, root: Path = CONFIG_ROOT) -> dict[str, Tolerance]:
    """Return the tolerances in configs/tolerances/NAME.yml by metric. Raises ConfigError."""
    path = find("tolerances", name, root=root)
    required = [*read_yaml(find("tolerances", "default"))]
    return read_entries(read_yaml(path), path, Tolerance, tolerance_names(), "metric", required=required)


def load_effects(name: str = "default", comparison: str | None = None, *, root: Path = CONFIG_ROOT) -> Effects:
    """Return the effect of each kind of finding: comparability/NAME.yml, overridden by the comparison's `findings:`."""
    rules = load_rules(find("comparability", name, root=root))
    if comparison is not None:
        path = find("comparisons", comparison, root=root)
        data = read_yaml(path)
        if "findings" in data:
            rules |= read_rules(data["findings"], path)
    return {kind: rule.effect for kind, rule in rules.items()}


class PairNoise(Frozen):
    """The distribution of the difference of two equal runs of any machine of a kind: Student's t around 0."""

    equal_runs: Share  # its scale, as a share of a step's time
    weight: Annotated[float, Field(gt=0, le=1000)]  # its degrees of freedom


class DeviceNoise(PairNoise):
    """The tolerance of step times on a kind of device, and the noise assumed for targets without a history.

    Machines of one kind differ in how much their equal runs scatter. The variance of the difference of two equal runs
    follows a scaled inverse chi-squared distribution with `weight` degrees of freedom around `equal_runs` squared.
    Fields of type `Share` are fractions of a step's time.
    """

    one_run: PairNoise | None = None  # instead, where each arm has one run, whose scatter is unknown; None: the same
    days_apart: Share  # further standard deviation if the arms' runs were not adjacent in time
    places_apart: Share | None = (
        None  # further standard deviation if the arms ran on different slices or hosts; None (old plans): `days_apart`
    )
    tolerance: Share  # differences up to this are accepted
    least: Share  # smaller differences are never reported
    why: Annotated[str, Field(min_length=1)]


def load_noises(*, root: Path = CONFIG_ROOT) -> dict[DeviceKind, DeviceNoise]:
    """Return the noise of step times on every kind of device. Raises ConfigError."""
    path = root / "noise.yml"
    kinds: tuple[DeviceKind, ...] = get_args(DeviceKind)
    return read_entries(read_yaml(path), path, DeviceNoise, kinds, "kind of device", required=kinds)


def device_kind_of(name: str | None, backend: str | None) -> DeviceKind:
    """Return the kind of a device from its name in a log ("TPU v6 lite", "NVIDIA H100") and JAX's backend name.

    A device is treated as a GPU if neither text contains "tpu" or "cpu", also if both are unknown.
    """
    text = f"{name or ''} {backend or ''}".lower()
    if "tpu" in text:
        return "tpu"
    return "cpu" if "cpu" in text else "gpu"


Names = Annotated[tuple[str, ...], Field(min_length=1)]


class Group(Frozen):
    """Name patterns of settings that may differ for the reason `why`, if both runs have the settings in `when`."""

    why: Annotated[str, Field(min_length=1)]
    names: Names
    when: dict[str, str] = {}


class Inert(Frozen):
    """The contents of configs/inert.yml: groups of settings (config keys, environment variables, compiler flags)."""

    own: tuple[Group, ...]  # values of a single run, such as its name and folder
    inputs: Names  # settings that name files which a run reads: they affect training
    inert: tuple[Group, ...]  # settings without an effect on training

    def is_own(self, name: str) -> bool:
        """Return whether the setting is a run's own name, folder, access token, port or host."""
        return any(_matches(name, group.names) for group in self.own)

    def is_input(self, name: str) -> bool:
        """Return whether the setting names an input of the run."""
        return _matches(name, self.inputs)

    def why(self, name: str, *sides: Mapping[str, str]) -> str | None:
        """Return why a difference in this setting is harmless; None if it may matter. sides: both runs' settings."""
        return next((g.why for g in self.inert if _matches(name, g.names) and _holds(g.when, sides)), None)


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _holds(when: Mapping[str, str], sides: tuple[Mapping[str, str], ...]) -> bool:
    # MaxText prints some values as Python enumeration members: DatasetType.SYNTHETIC
    return all(
        side.get(key, "").rpartition(".")[2].strip("'\"").lower() == value
        for side in sides
        for key, value in when.items()
    )


@cache
def load_inert() -> Inert:
    """Return the contents of `configs/inert.yml`. Raises ConfigError."""
    path = CONFIG_ROOT / "inert.yml"
    data = read_yaml(path)
    try:
        return Inert.model_validate(to_python(data))
    except ValidationError as error:
        known = tuple({*Inert.model_fields, *Group.model_fields})
        raise ConfigError(explain_errors(error, lambda keys: origin_of(data, path, keys), known)) from error


class VerdictRules(Frozen):
    """The rules of a verdict, copied from the files, so that later edits of the files do not change a verdict."""

    question: str
    tolerances: Mapping[str, Tolerance]  # by metric; for step-time metrics without one see `tolerance_of_time`
    effects: Mapping[FindingKind, Effect]  # effect of each kind of finding on the verdict
    noises: Mapping[DeviceKind, DeviceNoise]  # noise of step times
    inert: Inert  # which settings may differ
    arms: tuple[str, ...] = ()  # the baseline's name and the candidate's
    declared: tuple[str, ...] = ()  # config keys that the arms' `set:` contains
    alike: bool = False  # whether the arms have one kind of trainer, and neither a ref nor `set:`
    allowed: Mapping[str, str] = {}  # metric that may change → reason
    chips: int | None = None  # number of the target's devices; None unless they are paid for
    price: float | None = None  # US dollars per chip hour; None if the target does not set it

    def tolerance_of_time(self, metric: str, kind: DeviceKind) -> Tolerance:
        """Return the tolerance of a step-time metric: the comparison's, else the default for the kind of device."""
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
    """Return the rules: noise and inert settings from configs/, the target's chips and price, the rest as passed."""
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
