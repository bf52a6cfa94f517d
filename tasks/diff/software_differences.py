"""Finds undeclared differences in the software and hardware of two arms, and lists the declared ones."""

from collections.abc import Callable, Mapping
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement

from configs.findings import FindingKind
from tasks.diff.arms import ArmRuns, numbered
from tasks.diff.metric_row import Arms
from tasks.diff.observed import Observations, Observed, compare, notice, places_of
from tasks.diff.setting_differences import differences
from tasks.metrics.merged_steps import place_of
from tasks.records import Environment, RunRecord
from tasks.resolve.trainers.trainer_source import SOURCE

WITH_JAX = frozenset({"jax", "jaxlib", "libtpu"})  # released together: installing one of them changes the others
ALL = frozenset({"*"})  # stands for all packages
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


def find_surroundings(arms: Arms) -> Observations:
    """Yield findings for versions, devices and meshes that differ, without declared differences."""
    declared = declared_packages(arms)
    here = arms[0].reading.environment, arms[1].reading.environment
    for kind, name, message in FIELDS:
        values = getattr(here[0], name), getattr(here[1], name)
        # if JAX differs, so does jaxlib: no second finding
        if is_declared(name, declared) or (name == "jaxlib" and here[0].jax != here[1].jax):
            continue
        yield from compare(arms, kind, values, message, places_of(arms, name))
    meshes = show_mesh(here[0]), show_mesh(here[1])
    yield from compare(arms, "mesh", meshes, "different meshes ({} and {})", places_of(arms, "num_devices"))
    yield from _plans(arms, declared)
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
    """Return the packages whose versions are declared to differ; ALL if complete environments are."""
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
    """Return whether a package is declared to differ. declared: see `declared_packages`; ALL covers only WITH_JAX."""
    return package in declared or (declared == ALL and package in WITH_JAX)


def show_mesh(environment: Environment) -> str | None:
    """Return the mesh as text; None if the log does not contain it."""
    mesh = environment.mesh
    return None if mesh is None else ", ".join(f"{axis} {size}" for axis, size in sorted(mesh.items())) or "one device"


def _plans(arms: Arms, declared: frozenset[str]) -> Observations:
    """Yield findings for other packages with undeclared differences, by the plans of runs that maxview launched."""
    left, right = (arm.first.plan for arm in arms)
    if left is None or right is None or declared == ALL:
        return
    shown = {"jax", "jaxlib", SOURCE} | declared  # other findings show these
    for key in sorted((left.versions.keys() | right.versions.keys()) - shown):
        values = str(left.versions.get(key)), str(right.versions.get(key))
        yield from compare(arms, "package-version", values, f"different versions of {key} ({{}} and {{}})")


def _declared_versions(arms: Arms, declared: frozenset[str]) -> Observations:
    """Yield one observation with all packages whose versions differ as declared; none if an arm's are not known."""
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
    """Return package → version of an arm's first run, and whether the run reported them itself (else: its plan)."""
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
            found = next((d for d in differences(arm.first, run) if not d.why), None)
            if found is not None:
                yield _mixed(arm, found.name, f"config.{found.name}", ((0, found.values[0]), (number, found.values[1])))
                break


def _mixed(arm: ArmRuns, name: str, field: str, pair: tuple[tuple[int, Any], tuple[int, Any]]) -> Observed:
    shown = []
    for number, value in pair:
        reading = arm.runs[number].reading
        place = reading.sources.get(field) or place_of(reading.steps)
        shown.append((arm, f"run {number + 1}: {value}", place and numbered(place, number)))
    return notice("mixed-runs", f"runs of {arm.label} have different {name} ({pair[0][1]} and {pair[1][1]})", *shown)
