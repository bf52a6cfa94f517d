"""Checks that two arms differ only where they were meant to; each difference is a finding with its evidence."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any, Literal

from configs.schema import PLACE_KEYS
from tasks.diff.arms import ArmRuns
from tasks.records import Evidence, Finding, RunReading, Source

Effect = Literal["blocks", "qualifies", "note"]
FAR_APART = timedelta(minutes=15)
IMPLEMENTATIONS = frozenset({"linen", "nnx"})


def find_findings(
    baseline: ArmRuns, candidate: ArmRuns, *, declared: frozenset[str], aa: bool = False
) -> list[Finding]:
    """Every finding, those that block first. `declared` names the config keys that the arms are meant to differ in."""
    arms = (baseline, candidate)
    found = [
        *_deaths(arms),
        *_commits(arms, aa=aa),
        *_environments(arms),
        *_work(arms),
        *_configs(arms, declared),
        *_logs(arms),
        *_times(arms),
    ]
    order = {"blocks": 0, "qualifies": 1, "note": 2}
    return sorted(found, key=lambda finding: order[finding.effect])


def compares_implementations(baseline: ArmRuns, candidate: ArmRuns) -> bool:
    """Whether the arms are two implementations in one commit (Linen and NNX), not two commits."""
    return {baseline.name.lower(), candidate.name.lower()} <= IMPLEMENTATIONS


def _deaths(arms: tuple[ArmRuns, ArmRuns]) -> Iterator[Finding]:
    for arm in arms:
        run = arm.dead
        if run is None:
            continue
        error = run.reading.error
        after = _seconds_between(run.reading.started, run.reading.ended)
        when = f" {after:.0f} s after its start" if after is not None else ""
        steps = run.reading.steps.height
        done = "before its first step" if not steps else f"after {steps} step{'s' if steps > 1 else ''}"
        cause = f": {error.type}: {error.message}" if error else ""
        code = f" with exit code {run.reading.exit_code}" if run.reading.exit_code is not None else ""
        evidence = Evidence(
            arm=arm.name,
            value=f"{error.type}: {error.message}" if error else f"EXIT_CODE={run.reading.exit_code}",
            source=Source(line=error.line, offset=error.offset) if error else None,
        )
        yield Finding(
            kind="died",
            effect="blocks",
            message=f"{arm.label} died{when}, {done}{code}{cause}",
            evidence=(evidence,),
        )


def _seconds_between(start: str | None, end: str | None) -> float | None:
    if start is None or end is None:
        return None
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()


def _commits(arms: tuple[ArmRuns, ArmRuns], *, aa: bool) -> Iterator[Finding]:
    commits = [arm.first.commit for arm in arms]
    evidence = tuple(Evidence(arm=arm.name, value=commit) for arm, commit in zip(arms, commits, strict=True) if commit)
    if compares_implementations(*arms):
        if all(commits) and commits[0] != commits[1]:
            yield Finding(
                kind="different-commits",
                effect="qualifies",
                message="the implementations come from different commits: more than the implementation changed",
                evidence=evidence,
            )
    elif all(commits) and commits[0] == commits[1] and not aa:
        yield Finding(
            kind="same-commit",
            effect="blocks",
            message=f"both sides are commit {commits[0]}: this compares a commit with itself under two names",
            evidence=evidence,
        )
    for arm in arms:
        if arm.first.plan is not None and arm.first.plan.dirty:
            yield Finding(
                kind="dirty-checkout",
                effect="note",
                message=f"{arm.label} ran with changes that no commit holds",
                evidence=(Evidence(arm=arm.name, value="dirty"),),
            )


def _differs(
    arms: tuple[ArmRuns, ArmRuns],
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


def _environments(arms: tuple[ArmRuns, ArmRuns]) -> Iterator[Finding]:
    yield from _differs(
        arms, "jax-version", "qualifies", lambda r: r.environment.jax,
        "different JAX versions ({} and {}): this alone can change speed, memory and losses",
    )  # fmt: skip
    if arms[0].reading.environment.jax == arms[1].reading.environment.jax:
        yield from _differs(
            arms, "jaxlib-version", "qualifies", lambda r: r.environment.jaxlib,
            "different jaxlib versions ({} and {}): another compiler",
        )  # fmt: skip
    yield from _differs(
        arms, "device-kind", "blocks", lambda r: r.environment.device_kind, "different devices ({} and {})"
    )
    yield from _differs(
        arms, "device-count", "blocks", lambda r: r.environment.num_devices, "different numbers of devices ({} and {})"
    )
    yield from _differs(arms, "mesh", "blocks", lambda r: r.environment.mesh, "different meshes ({} and {})")
    yield from _differs(
        arms, "host-process", "qualifies", lambda r: r.environment.process_index,
        "the logs come from different host processes ({} and {}): hosts wait at different places, and only process 0 "
        "prints a checkpoint's commit",
    )  # fmt: skip
    yield from _differs(
        arms, "source-lines", "qualifies", lambda r: r.source_file,
        "step lines were printed by different source lines ({} and {}): not the same code",
    )  # fmt: skip
    plans = [arm.first.plan for arm in arms]
    if plans[0] is not None and plans[1] is not None:
        for package in sorted(plans[0].versions.keys() | plans[1].versions.keys()):
            versions = [plan.versions.get(package) for plan in plans if plan is not None]
            if versions[0] != versions[1] and package not in ("jax", "jaxlib"):
                yield Finding(
                    kind="package-version",
                    effect="qualifies",
                    message=f"different versions of {package} ({versions[0]} and {versions[1]})",
                    evidence=tuple(Evidence(arm=arm.name, value=str(v)) for arm, v in zip(arms, versions, strict=True)),
                )


def _work(arms: tuple[ArmRuns, ArmRuns]) -> Iterator[Finding]:
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


def _configs(arms: tuple[ArmRuns, ArmRuns], declared: frozenset[str]) -> Iterator[Finding]:
    configs = []
    for arm in arms:
        plan = arm.first.plan
        configs.append({k: str(v) for k, v in plan.config.items()} if plan else dict(arm.reading.config))
    ignored = PLACE_KEYS | declared | {"tensorboard_dir", "checkpoint_dir", "metrics_dir"}
    for key in sorted(configs[0].keys() & configs[1].keys() - ignored):
        if configs[0][key] != configs[1][key]:
            yield Finding(
                kind="config",
                effect="qualifies",
                message=f"{key} differs ({configs[0][key]} and {configs[1][key]}), and was not meant to",
                evidence=tuple(Evidence(arm=arm.name, value=c[key]) for arm, c in zip(arms, configs, strict=True)),
            )


def _logs(arms: tuple[ArmRuns, ArmRuns]) -> Iterator[Finding]:
    for arm in arms:
        coverage = arm.reading.coverage
        missed = coverage.step_lines_seen - coverage.step_lines_parsed
        if missed:
            yield Finding(
                kind="unread-steps",
                effect="qualifies",
                message=f"{missed} of {coverage.step_lines_seen} step lines of {arm.label} could not be read",
                evidence=(Evidence(arm=arm.name, value=f"{coverage.step_lines_parsed} read"),),
            )
        if not coverage.complete and arm.dead is None:
            why = "is cut off" if coverage.truncated else "does not show how the run ended"
            yield Finding(
                kind="incomplete-log",
                effect="qualifies",
                message=f"the log of {arm.label} {why}",
                evidence=(Evidence(arm=arm.name, value="no EXIT_CODE"),),
            )
        if coverage.gaps:
            first, last = coverage.gaps[0]
            yield Finding(
                kind="missing-steps",
                effect="qualifies",
                message=f"steps are missing in the log of {arm.label}, first {first}–{last}",
                evidence=(Evidence(arm=arm.name, value=str(len(coverage.gaps))),),
            )


def _times(arms: tuple[ArmRuns, ArmRuns]) -> Iterator[Finding]:
    starts = [arm.reading.started for arm in arms]
    if starts[0] is None or starts[1] is None:
        return
    apart = abs(datetime.fromisoformat(starts[1]) - datetime.fromisoformat(starts[0]))
    if apart > FAR_APART:
        minutes = apart.total_seconds() / 60
        shown = f"{minutes:.0f} minutes" if minutes < 120 else f"{minutes / 60:.1f} hours"
        yield Finding(
            kind="started-apart",
            effect="note",
            message=f"the runs started {shown} apart",
            evidence=tuple(Evidence(arm=arm.name, value=str(start)) for arm, start in zip(arms, starts, strict=True)),
        )
