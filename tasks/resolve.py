"""Turns a comparison's name and a few overrides into fully resolved run plans."""

import hashlib
import importlib.metadata
import json
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from configs.comparison import (
    Comparison,
    Target,
    arm_layer,
    list_names,
    load_comparison,
    load_layer,
    load_target,
    set_layer,
)
from configs.load import (
    CONFIG_ROOT,
    ConfigError,
    Value,
    layer_from_map,
    layer_from_overrides,
    merge_layers,
    read_yaml,
    suggest,
)
from configs.schema import PLACE_KEYS, Frozen, TrainConfig
from tasks.records import RunPlan

PACKAGES = ("jax", "jaxlib", "libtpu", "flax", "optax", "orbax-checkpoint", "tensorstore", "numpy")


class ResolvedConfig(Frozen):
    """A checked config, and for every key the value that won with its origin."""

    config: TrainConfig
    values: dict[str, Value]


def resolve_config(
    comparison: Comparison,
    target: Target,
    *,
    case: str,
    arm: str,
    overrides: Sequence[str] = (),
    model: str | None = None,
) -> ResolvedConfig:
    """Layer base, target, model, case, arm, comparison and command line; later wins."""
    base = CONFIG_ROOT / "base.yml"
    config, values = merge_layers(
        [
            layer_from_map(read_yaml(base), base, "base"),
            set_layer("targets", target.name, "target"),
            load_layer("models", model or target.model, "model"),
            load_layer("cases", case, "case"),
            arm_layer(comparison.name, arm),
            set_layer("comparisons", comparison.name, "comparison"),
            layer_from_overrides(list(overrides)),
        ]
    )
    return ResolvedConfig(config=config, values=values)


def find_arm(comparison: Comparison, name: str) -> str:
    """The arm's name, or a ConfigError that suggests one."""
    names = [arm.name for arm in comparison.arms]
    if name in names:
        return name
    raise ConfigError(
        [f"unknown arm '{name}' of {comparison.name}{suggest(name, names)}; there are: {', '.join(names)}"]
    )


def trainer_commit(root: Path) -> tuple[str | None, bool]:
    """(commit, dirty) of the git checkout that holds the trainer; (None, False) outside a checkout."""
    if not (root / ".git").exists():
        return None, False

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", "-C", str(root), *words], capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        return git("rev-parse", "HEAD"), bool(git("status", "--porcelain", "--", "model", "configs"))
    except (OSError, subprocess.CalledProcessError):
        return None, False  # no git on this machine, or no commit yet


def source_digest(root: Path) -> str:
    """A hash over the trainer's source: what decides a run's outcome even between commits."""
    digest = hashlib.sha256()
    for path in sorted([*(root / "model").rglob("*.py"), *(root / "configs").glob("*.py")]):
        digest.update(str(path.relative_to(root)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def installed_versions() -> dict[str, str]:
    """The versions of the packages that a run imports, Python included."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def hash_identity(facts: dict[str, Any]) -> str:
    """The run's identity: equal facts, equal hash, on every machine."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:16]


class Request(Frozen):
    """What the user asked for: a comparison's name and what they want different from its file."""

    comparison: str
    cases: tuple[str, ...] = ()  # empty: the comparison's own; "all": every case there is
    target: str | None = None
    model: str | None = None
    repeats: int | None = None
    overrides: tuple[str, ...] = ()  # key=value
    fresh: str = ""  # any text; makes the runs new ones even if equal runs have finished before


def resolve(request: Request, out: Path) -> list[RunPlan]:
    """The plans of a comparison in the order they should run: case by case, repeats interleaved A B A B.

    Raises ConfigError with every problem of the input.
    """
    comparison = load_comparison(request.comparison)
    target = load_target(request.target or comparison.target)
    root = CONFIG_ROOT.parent
    commit, dirty = trainer_commit(root)
    source = source_digest(root)
    versions = installed_versions()
    count = comparison.repeats if request.repeats is None else request.repeats
    if count < 1:
        raise ConfigError([f"--repeats must be at least 1, got {count}"])
    plans = []
    wanted = list_names("cases") if "all" in request.cases else request.cases or comparison.cases
    for case in dict.fromkeys(wanted):
        for repeat in range(count):
            for arm in comparison.arms:
                resolved = resolve_config(
                    comparison, target, case=case, arm=arm.name, overrides=request.overrides, model=request.model
                )
                values = resolved.config.model_dump()
                identity = hash_identity(
                    {
                        "config": {k: v for k, v in values.items() if k not in PLACE_KEYS},
                        "trainer": comparison.trainer,
                        "target": target.model_dump(exclude={"set", "time_limit_s"}),
                        "source": source,
                        "versions": versions,
                        "repeat": repeat,
                        "fresh": request.fresh,
                    }
                )
                run_name = f"{case}-{arm.name}-r{repeat}-{identity[:10]}"
                directory = out / "runs" / run_name
                values |= {"run_name": run_name, "base_output_directory": str(out / "runs")}
                plans.append(
                    RunPlan(
                        comparison=comparison.name,
                        case=case,
                        arm=arm.name,
                        repeat=repeat,
                        trainer=comparison.trainer,
                        target=target.name,
                        backend=target.backend,
                        config=values,
                        origins={key: value.origin for key, value in resolved.values.items()}
                        | dict.fromkeys(("run_name", "base_output_directory"), "the run's identity"),
                        commit=commit,
                        dirty=dirty,
                        versions=versions,
                        environment=dict(target.environment),
                        argv=(sys.executable, "-m", "model.train", str(directory / "config.yml")),
                        time_limit_s=target.time_limit_s,
                        run_name=run_name,
                        directory=str(directory),
                        identity=identity,
                    )
                )
    return plans
