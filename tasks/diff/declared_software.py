"""Tells which packages two arms that are declared to run different software really had, and who says so."""

from collections.abc import Mapping

from tasks.diff.arms import ArmRuns
from tasks.diff.observed import Observations, Observed
from tasks.diff.rows import Arms
from tasks.diff.software import ALL, declared_packages
from tasks.records import Evidence
from tasks.resolve.identify import SOURCE

NOTHING = "not installed"


def find_declared_software(arms: Arms) -> Observations:
    """One observation with every package whose version differs as declared; none where nothing is known of an arm."""
    declared = declared_packages(arms)
    known = [installed_in(arm) for arm in arms]
    if not declared or not all(versions for versions, _ in known):
        return
    (left, _), (right, _) = known
    names = sorted((left.keys() | right.keys()) - {SOURCE} if declared == ALL else declared)
    pairs = {name: (left.get(name, NOTHING), right.get(name, NOTHING)) for name in names}
    different = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    if not different:
        return
    yield Observed(
        kind="declared-software",
        message=f"the arms run other versions of {', '.join(different)}, as declared",
        evidence=tuple(
            Evidence(
                arm=arm.name,
                value=", ".join(f"{name} {pair[side]}" for name, pair in different.items())
                + (" (as the run itself says)" if known[side][1] else " (as installed when it was planned)"),
            )
            for side, arm in enumerate(arms)
        ),
    )


def installed_in(arm: ArmRuns) -> tuple[Mapping[str, str], bool]:
    """The versions of an arm's packages, and whether its first run itself told them."""
    said = arm.first.program.get("trainer")
    if isinstance(said, dict) and isinstance(said.get("versions"), dict):
        return said["versions"], True
    plan = arm.first.plan
    return (plan.versions if plan else {}), False
