"""Finds undeclared differences of two arms in software, hardware, work and settings, and differences inside an arm."""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

import polars as pl
from packaging.requirements import InvalidRequirement, Requirement

from configs.findings import FindingKind
from tasks.diff.examine.arms import ArmRuns, Arms, numbered
from tasks.diff.examine.observed import Observations, Observed, compare_values, notice, places_of
from tasks.diff.examine.setting_differences import (
    IMPLEMENTATION_KEYS,
    SettingDifference,
    config_differences,
    variable_differences,
)
from tasks.metrics.merged_steps import RATE, place_of_row
from tasks.records.log_reading import Environment, RunReading
from tasks.records.run import RunRecord
from tasks.resolve.trainers.trainer import SOURCE

WITH_JAX = frozenset({"jax", "jaxlib", "libtpu"})  # released together: installing one of them changes the others
ALL = frozenset({"*"})  # all packages
NOTHING = "not installed"
# (kind of finding, field of Environment, message with `{}` for each arm's value)
FIELDS: tuple[tuple[FindingKind, str, str], ...] = (
    ("jax-version", "jax", "different JAX versions ({} and {}): this alone can change speed, memory and losses"),
    ("jaxlib-version", "jaxlib", "different jaxlib versions ({} and {}): another compiler"),
    ("libtpu-version", "libtpu", "different builds of libtpu ({} and {}): another compiler and runtime of the TPU"),
    ("device-kind", "device_kind", "different devices ({} and {})"),
    ("device-count", "num_devices", "different numbers of devices ({} and {})"),
    (
        "host-process",
        "process_index",
        "the logs come from different host processes ({} and {}): hosts wait at different places, and only process 0 "
        "prints a checkpoint's commit",
    ),
)
HALF_A_DIGIT = 0.005  # of a device's TFLOPs per step, of which logs print two decimals
OTHER_UNIT = 1.5  # least ratio of the arms' tokens per step for a finding; rounding causes far smaller ratios
SINGLE = 5  # up to so many differing keys of a kind get a finding each; more get a common one


def find_environment_differences(arms: Arms) -> Observations:
    """Yield findings for versions, devices and meshes that differ but are not declared to differ.

    Also yields the versions that differ as declared, and the differences between the runs of one arm.
    """
    declared = declared_packages(arms)
    here = arms[0].reading.environment, arms[1].reading.environment
    for kind, name, message in FIELDS:
        values = getattr(here[0], name), getattr(here[1], name)
        # if JAX differs, so does jaxlib: no second finding
        if is_declared(name, declared) or (name == "jaxlib" and here[0].jax != here[1].jax):
            continue
        yield from compare_values(arms, kind, values, message, places_of(arms, name))
    meshes = show_mesh(here[0]), show_mesh(here[1])
    yield from compare_values(arms, "mesh", meshes, "different meshes ({} and {})", places_of(arms, "num_devices"))
    yield from _compare_packages(arms, declared)
    yield from _declared_versions(arms, declared)
    yield from _mixed_runs(arms)


def software_differs(arms: Arms) -> bool:
    """Return whether the arms are declared to run different packages, Pythons or images, or different trainers."""
    plans = [arm.first.plan for arm in arms]
    return trainers_differ(arms) or len({plan.software if plan else () for plan in plans}) > 1


def trainers_differ(arms: Arms) -> bool:
    """Return whether the arms are declared to run different trainers: maxview's, MaxText, or a custom command."""
    return len({arm.first.plan.trainer for arm in arms if arm.first.plan}) > 1


def declared_packages(arms: Arms) -> frozenset[str]:
    """Return the packages whose versions are declared to differ.

    ALL if the declaration may concern every package, as another trainer, Python, image or project does.
    """
    if not software_differs(arms):
        return frozenset()
    if trainers_differ(arms):
        return ALL
    names: set[str] = set()
    left, right = (set(arm.first.plan.software) if arm.first.plan else set() for arm in arms)
    for word in left ^ right:
        try:
            names.add(Requirement(word).name.lower().replace("_", "-"))
        except InvalidRequirement:  # `python PATH`, `image NAME`
            return ALL
    if names & {"project", "maxtext"}:  # their requirements determine the versions of all packages
        return ALL
    return frozenset(names | (WITH_JAX if names & WITH_JAX else set()))


def is_declared(package: str, declared: frozenset[str]) -> bool:
    """Return whether a package is declared to differ; with ALL, true only for WITH_JAX.

    package: a name of a package or another field of Environment. declared: from `declared_packages`.
    """
    return package in declared or (declared == ALL and package in WITH_JAX)


def show_mesh(environment: Environment) -> str | None:
    """Return the mesh as text; None if the log does not contain it."""
    mesh = environment.mesh
    return None if mesh is None else ", ".join(f"{axis} {size}" for axis, size in sorted(mesh.items())) or "one device"


def _compare_packages(arms: Arms, declared: frozenset[str]) -> Observations:
    """Yield findings for undeclared differences in packages other than jax and jaxlib; only for launched runs."""
    left, right = (arm.first.plan for arm in arms)
    if left is None or right is None or declared == ALL:
        return
    shown = {"jax", "jaxlib", SOURCE} | declared  # other findings show these
    for key in sorted((left.versions.keys() | right.versions.keys()) - shown):
        values = str(left.versions.get(key)), str(right.versions.get(key))
        yield from compare_values(arms, "package-version", values, f"different versions of {key} ({{}} and {{}})")


def _declared_versions(arms: Arms, declared: frozenset[str]) -> Observations:
    """Yield one observation of all packages whose versions differ as declared; none if an arm has no known versions."""
    known = [installed_in(arm) for arm in arms]
    if not declared or not all(versions for versions, _ in known):
        return
    (left, _), (right, _) = known
    names = sorted((left.keys() | right.keys()) - {SOURCE} if declared == ALL else declared)
    pairs = {name: (left.get(name, NOTHING), right.get(name, NOTHING)) for name in names}
    different = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    if not different:
        return
    shown = []
    for side, arm in enumerate(arms):
        versions = ", ".join(f"{name} {pair[side]}" for name, pair in different.items())
        known_by = "reported by the run" if known[side][1] else "installed at planning time"
        shown.append((arm, f"{versions} ({known_by})", None))
    yield notice("declared-software", f"the arms run other versions of {', '.join(different)}, as declared", *shown)


def installed_in(arm: ArmRuns) -> tuple[Mapping[str, str], bool]:
    """Return package → version of an arm's first run, and whether the run reported them (else: its plan)."""
    said = arm.first.program.get("trainer")
    if isinstance(said, dict) and isinstance(said.get("versions"), dict):
        return said["versions"], True
    plan = arm.first.plan
    return (plan.versions if plan else {}), False


def _mixed_runs(arms: Arms) -> Observations:
    """Yield a finding for each condition, and for the first setting, that differs between the runs of one arm."""
    reads: tuple[tuple[str, str, Callable[[RunRecord], Any]], ...] = (
        ("commits", "", lambda run: run.commit),
        ("source lines of their steps", "", lambda run: run.reading.source_file),
        ("JAX versions", "jax", lambda run: run.reading.environment.jax),
        ("builds of libtpu", "libtpu", lambda run: run.reading.environment.libtpu),
        ("devices", "device_kind", lambda run: run.reading.environment.device_kind),
        ("numbers of devices", "num_devices", lambda run: run.reading.environment.num_devices),
    )
    for arm in arms:
        for name, field, read in reads:
            values = [(number, read(run)) for number, run in enumerate(arm.runs) if read(run) is not None]
            other = next((pair for pair in values if pair[1] != values[0][1]), None)
            if other is not None:
                yield _mixed(arm, name, field, (values[0], other))
        for number, run in enumerate(arm.runs):
            settings = chain(config_differences(arm.first, run), variable_differences(arm.first, run))
            different = next((setting for setting in settings if not setting.why), None)
            if different is not None:
                yield _mixed(
                    arm,
                    different.name,
                    f"config.{different.name}",
                    ((0, different.values[0]), (number, different.values[1])),
                )
                break


def _mixed(arm: ArmRuns, name: str, field: str, pair: tuple[tuple[int, Any], tuple[int, Any]]) -> Observed:
    shown = []
    for number, value in pair:
        reading = arm.runs[number].reading
        place = reading.sources.get(field) or place_of_row(reading.steps)
        shown.append((arm, f"run {number + 1}: {value}", place and numbered(place, number)))
    return notice("mixed-runs", f"runs of {arm.label} have different {name} ({pair[0][1]} and {pair[1][1]})", *shown)


def find_work_differences(arms: Arms, declared: frozenset[str]) -> Observations:
    """Yield findings for undeclared differences in FLOPs, tokens, steps, config keys and environment variables."""
    left, right = arms[0].reading, arms[1].reading
    yield from _compare_flops(arms)
    ends = place_of_row(left.steps, -1), place_of_row(right.steps, -1)
    tokens = _value_at(left, "total_weights", -1), _value_at(right, "total_weights", -1)
    yield from compare_values(arms, "tokens", tokens, "different numbers of tokens per step ({} and {})", ends)
    yield from _compare_token_counts(arms)
    begins, counts = (place_of_row(left.steps), place_of_row(right.steps)), (arms[0].counts_from, arms[1].counts_from)
    message = "the logs count their steps from {} and from {}: the n-th of one is compared with the n-th of the other"
    yield from compare_values(arms, "numbering", counts, message, begins)
    for index, word, places in ((0, "began", begins), (-1, "ended", ends)):
        steps = _value_at(left, "step", index), _value_at(right, "step", index)
        if index == 0 or not any(arm.dead for arm in arms):
            yield from compare_values(
                arms, "steps", steps, f"the arms {word} at different steps ({{}} and {{}})", places
            )
    yield from _compare_configs(arms, declared)


def _devices_of(arms: Arms) -> tuple[int, int]:
    """Return the devices among which each arm's step is split, if both logs show them; else 1 and 1."""
    left, right = (arm.reading.environment.num_devices for arm in arms)
    return (left, right) if left and right else (1, 1)


def _compare_flops(arms: Arms) -> Observations:
    """Yield a finding if the FLOPs per step differ. Logs print those of one device; with other numbers of devices the
    sums over the devices are compared, up to the printed digits.
    """
    left, right = (arm.reading.flops.total_tflops for arm in arms)
    devices = _devices_of(arms)
    if left is not None and right is not None and devices[0] != devices[1]:
        left, right = left * devices[0], right * devices[1]
        if abs(left - right) <= HALF_A_DIGIT * sum(devices):
            return
    message = "the model does different work per step ({} and {} TFLOPs)"
    yield from compare_values(arms, "flops", (left, right), message, places_of(arms, "flops"))


def _compare_token_counts(arms: Arms) -> Observations:
    """Yield a finding if tokens per step (seconds × tokens per second) differ by a factor above OTHER_UNIT.

    Speed does not change this product.
    """
    sides = zip(arms, _devices_of(arms), strict=True)
    left, right = (tokens and tokens * devices for arm, devices in sides for tokens in [_tokens_of_step(arm.reading)])
    if left is not None and right is not None and not left / OTHER_UNIT <= right <= left * OTHER_UNIT:
        message = (
            "seconds per step × Tokens/s/device gives {:.0f} and {:.0f} tokens per step: the arms do different work or "
            "use different units"
        )
        places = place_of_row(arms[0].reading.steps), place_of_row(arms[1].reading.steps)
        yield from compare_values(arms, "tokens", (left, right), message, places)


def _tokens_of_step(reading: RunReading) -> float | None:
    """Return the tokens of a step on one device; None if unknown."""
    if RATE not in reading.steps.columns:
        return None
    product = reading.steps.select(pl.col("seconds") * pl.col(RATE).cast(pl.Float64)).to_series().median()
    return product if isinstance(product, float) and product > 0 else None


def _value_at(reading: RunReading, column: str, index: int) -> Any:
    if reading.steps.is_empty() or column not in reading.steps.columns:
        return None
    return reading.steps[column][index]


def _compare_configs(arms: Arms, declared: frozenset[str]) -> Observations:
    if "pure_nnx" in declared:
        declared |= IMPLEMENTATION_KEYS  # MaxText has three keys for the implementation
    # releases have different default configs, so only planned keys are compared between different software
    runs = arms[0].first, arms[1].first
    differences = [
        item for item in config_differences(*runs, planned=software_differs(arms)) if item.name not in declared
    ]
    yield from _observe_settings(arms, [*differences, *variable_differences(*runs)])


def _observe_settings(arms: Arms, differences: Sequence[SettingDifference]) -> Observations:
    """Yield one observation per setting.

    Settings without effect for the same reason share one; so do more than SINGLE settings of a kind.
    """
    for kind, why in dict.fromkeys((item.kind, item.why) for item in differences):
        same = [item for item in differences if (item.kind, item.why) == (kind, why)]
        if len(same) > SINGLE or why:
            yield _join_settings(arms, kind, same, why)
            continue
        for item in same:
            message = f"{item.name} differs ({{}} and {{}}), but is not declared to differ"
            yield from compare_values(arms, kind, item.values, message, places_of(arms, f"config.{item.name}"))


def _join_settings(arms: Arms, kind: FindingKind, differences: list[SettingDifference], why: str) -> Observed:
    """Return one observation for several settings, with their values as evidence."""
    shown = ", ".join(item.name for item in differences[:SINGLE])
    shown += f" and {len(differences) - SINGLE} more" if len(differences) > SINGLE else ""
    message = f"{len(differences)} config keys differ, but are not declared to differ: {shown}"
    if why:
        message = f"{shown} {'differs' if len(differences) == 1 else 'differ'}, which cannot matter: {why}"
    evidence = (
        (arm, f"{item.name}={value}", place)
        for item in differences
        for arm, value, place in zip(arms, item.values, places_of(arms, f"config.{item.name}"), strict=True)
    )
    return notice(kind, message, *evidence)
