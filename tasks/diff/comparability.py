"""Checks that two arms differ only where they were meant to; each difference is a finding with its evidence."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from configs.schema import PLACE_KEYS
from tasks.diff.arms import ArmRuns
from tasks.diff.fates import find_deaths, find_distance, find_reading_gaps
from tasks.diff.rows import Arms
from tasks.identify import SOURCE
from tasks.records import Evidence, Finding, RunReading

Effect = Literal["blocks", "qualifies", "note"]
IMPLEMENTATIONS = frozenset({"linen", "nnx"})
PLACES = PLACE_KEYS | {"tensorboard_dir", "checkpoint_dir", "metrics_dir"}  # MaxText's, derived from PLACE_KEYS


def find_findings(arms: Arms, *, declared: frozenset[str], aa: bool = False) -> list[Finding]:
    """Every finding, those that block first. `declared` names the config keys that the arms are meant to differ in."""
    found = [
        *find_deaths(arms),
        *_commits(arms, declared, aa=aa),
        *_trainers(arms),
        *_environments(arms),
        *_plans(arms),
        *_work(arms),
        *_configs(arms, declared),
        *find_reading_gaps(arms),
        *find_distance(arms),
    ]
    order = {"blocks": 0, "qualifies": 1, "note": 2}
    return sorted(found, key=lambda finding: order[finding.effect])


def _commits(arms: Arms, declared: frozenset[str], *, aa: bool) -> Iterator[Finding]:
    """Two commits are compared, or two things in one commit: the other way round something is wrong."""
    commits = [arm.first.commit for arm in arms]
    plans = [arm.first.plan for arm in arms]
    sources = [plan.versions.get(SOURCE) if plan else None for plan in plans]
    evidence = tuple(Evidence(arm=arm.name, value=commit) for arm, commit in zip(arms, commits, strict=True) if commit)
    differ = _compares_implementations(arms) or _differ_as_declared(arms, declared)
    if not (differ or aa or _software_differs(arms)) and all(commits) and commits[0] == commits[1]:
        yield Finding(
            kind="same-commit",
            effect="blocks",
            message=f"both sides are commit {commits[0]}: this compares a commit with itself under two names",
            evidence=evidence,
        )
    if (differ or aa) and all(commits) and commits[0] != commits[1]:
        same_source = sources[0] is not None and sources[0] == sources[1]
        yield Finding(
            kind="different-commits",
            effect="note" if same_source else "qualifies",
            message="the arms come from different commits, in which the trainer's source is the same"
            if same_source
            else "the arms come from different commits: more changed than was meant to",
            evidence=evidence,
        )
    dirty = [arm for arm, plan in zip(arms, plans, strict=True) if plan is not None and plan.dirty]
    if dirty:
        yield Finding(
            kind="dirty-checkout",
            effect="note",
            message=f"{' and '.join(arm.label for arm in dirty)} ran with changes that no commit holds",
            evidence=tuple(Evidence(arm=arm.name, value="dirty") for arm in dirty),
        )


def _compares_implementations(arms: Arms) -> bool:
    """Whether the arms are two implementations in one commit (Linen and NNX), not two commits."""
    return {arm.name.lower() for arm in arms} == IMPLEMENTATIONS


def _differ_as_declared(arms: Arms, declared: frozenset[str]) -> bool:
    left, right = (config_of(arm) for arm in arms)
    return any(key in left and key in right and left[key] != right[key] for key in declared)


def config_of(arm: ArmRuns) -> dict[str, str]:
    """The config of the arm's first run: of its plan, else as its log prints it."""
    plan = arm.first.plan
    return {key: str(value) for key, value in plan.config.items()} if plan else dict(arm.reading.config)


def _differs(
    arms: Arms,
    kind: str,
    effect: Effect,
    read: Callable[[RunReading], Any],
    message: str,
) -> Iterator[Finding]:
    values = [read(arm.reading) for arm in arms]
    if None in values or values[0] == values[1]:
        return
    shown = tuple(Evidence(arm=arm.name, value=str(value)) for arm, value in zip(arms, values, strict=True))
    yield Finding(kind=kind, effect=effect, message=message.format(*values), evidence=shown)


def _trainers(arms: Arms) -> Iterator[Finding]:
    """What the runs say of themselves: each of an arm ran the commit and the source that were planned."""
    for arm in arms:
        for run in arm.runs:
            said = run.program.get("trainer")
            if run.plan is None or not said:
                continue
            pairs = (
                ("commit", run.plan.commit, said.get("commit")),
                (SOURCE, run.plan.versions.get(SOURCE), str(said.get("source") or "")[:12]),
            )
            wrong = [(name, planned, found) for name, planned, found in pairs if planned and found and planned != found]
            if run.plan.checkout is not None and said.get("dirty"):
                wrong.append(("checkout", "clean", "changed"))
            for name, planned, found in wrong:
                yield Finding(
                    kind="other-trainer",
                    effect="blocks",
                    message=f"{run.plan.run_name} ran another trainer than was planned: {name} {found}, not {planned}",
                    evidence=(Evidence(arm=arm.name, value=found),),
                )


def _software_differs(arms: Arms) -> bool:
    """Whether the arms are declared to run different packages, Pythons or images."""
    return len({arm.first.plan.software if arm.first.plan else () for arm in arms}) > 1


def _environments(arms: Arms) -> Iterator[Finding]:
    software: Effect = "note" if _software_differs(arms) else "qualifies"  # what is declared is meant
    yield from _differs(
        arms, "jax-version", software, lambda r: r.environment.jax,
        "different JAX versions ({} and {}): this alone can change speed, memory and losses",
    )  # fmt: skip
    if arms[0].reading.environment.jax == arms[1].reading.environment.jax:
        yield from _differs(
            arms, "jaxlib-version", software, lambda r: r.environment.jaxlib,
            "different jaxlib versions ({} and {}): another compiler",
        )  # fmt: skip
    yield from _differs(
        arms, "device-kind", "blocks", lambda r: r.environment.device_kind, "different devices ({} and {})"
    )
    yield from _differs(
        arms, "device-count", "blocks", lambda r: r.environment.num_devices, "different numbers of devices ({} and {})"
    )
    yield from _differs(arms, "mesh", "blocks", _show_mesh, "different meshes ({} and {})")
    yield from _differs(
        arms, "host-process", "qualifies", lambda r: r.environment.process_index,
        "the logs come from different host processes ({} and {}): hosts wait at different places, and only process 0 "
        "prints a checkpoint's commit",
    )  # fmt: skip
    yield from _differs(
        arms, "source-lines", "qualifies", lambda r: r.source_file,
        "step lines were printed by different source lines ({} and {}): not the same code",
    )  # fmt: skip


def _plans(arms: Arms) -> Iterator[Finding]:
    """What only we know, because we launched both runs: package versions and environment variables."""
    left, right = (arm.first.plan for arm in arms)
    if left is None or right is None:
        return
    told = {"jax", "jaxlib", SOURCE}  # by the logs and by the commits
    software: Effect = "note" if _software_differs(arms) else "qualifies"
    kinds: tuple[tuple[str, Effect, str, Mapping[str, str], Mapping[str, str]], ...] = (
        ("package-version", software, "versions of", left.versions, right.versions),
        ("environment-variable", "qualifies", "values of", left.environment, right.environment),
    )
    for kind, effect, name, ours, theirs in kinds:
        for key in sorted((ours.keys() | theirs.keys()) - told):
            values = [side.get(key) for side in (ours, theirs)]
            if values[0] != values[1]:
                yield Finding(
                    kind=kind,
                    effect=effect,
                    message=f"different {name} {key} ({values[0]} and {values[1]})",
                    evidence=tuple(Evidence(arm=arm.name, value=str(v)) for arm, v in zip(arms, values, strict=True)),
                )


def _work(arms: Arms) -> Iterator[Finding]:
    yield from _differs(
        arms, "flops", "blocks", lambda r: r.flops.total_tflops,
        "the model does different work per step ({} and {} TFLOPs)",
    )  # fmt: skip
    yield from _differs(
        arms,
        "tokens",
        "blocks",
        lambda r: _last(r, "total_weights"),
        "different numbers of tokens per step ({} and {})",
    )
    if not any(arm.dead for arm in arms):
        yield from _differs(
            arms, "steps", "qualifies", lambda r: _last(r, "step"), "the arms ended at different steps ({} and {})"
        )


def _last(reading: RunReading, column: str) -> Any:
    if reading.steps.is_empty() or column not in reading.steps.columns:
        return None
    return reading.steps[column][-1]


def _show_mesh(reading: RunReading) -> str | None:
    mesh = reading.environment.mesh
    return None if mesh is None else ", ".join(f"{axis} {size}" for axis, size in sorted(mesh.items())) or "one device"


def _configs(arms: Arms, declared: frozenset[str]) -> Iterator[Finding]:
    left, right = (config_of(arm) for arm in arms)
    for key in sorted((left.keys() & right.keys()) - PLACES - declared):
        if left[key] != right[key]:
            yield Finding(
                kind="config",
                effect="qualifies",
                message=f"{key} differs ({left[key]} and {right[key]}), and was not meant to",
                evidence=(Evidence(arm=arms[0].name, value=left[key]), Evidence(arm=arms[1].name, value=right[key])),
            )
