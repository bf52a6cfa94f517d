"""Reads what may be compared, where, and how closely: comparisons, cases, targets and tolerances by name."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, ValidationError, model_validator

from configs.load import (
    CONFIG_ROOT,
    ConfigError,
    Value,
    display_path,
    explain,
    layer_from_map,
    plain,
    read_yaml,
    suggest,
)
from configs.schema import Frozen

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]


class Arm(Frozen):
    """One side of a comparison: a name and what it sets."""

    name: Name
    set: dict[str, Any] = {}


class Comparison(Frozen):
    """Two arms × cases × repeats on a target, with tolerances. `question` is the file's first comment."""

    name: Name
    question: str
    trainer: Literal["maxview"]
    target: Name
    cases: tuple[Name, ...]
    repeats: Annotated[int, Field(ge=1, le=100)]
    tolerances: Name
    arms: tuple[Arm, ...]
    set: dict[str, Any] = {}

    @model_validator(mode="after")
    def _check_arms(self) -> Self:
        names = [arm.name for arm in self.arms]
        if len(names) != 2 or len(set(names)) != 2:
            raise ValueError(f"expected two arms with different names, got {names or 'none'}")
        return self


class Target(Frozen):
    """Where runs go: the launcher, the devices, the model sized for them, and the environment of the process."""

    name: Name
    backend: Literal["local"]
    devices: Annotated[int, Field(ge=1)]
    model: Name
    time_limit_s: Annotated[int, Field(ge=1)]
    environment: dict[str, str] = {}
    set: dict[str, Any] = {}


class Tolerance(Frozen):
    """The least difference of a metric that matters, and why: relative to the baseline, or absolute in its unit."""

    relative: Annotated[float, Field(ge=0)] | None = None
    absolute: Annotated[float, Field(ge=0)] | None = None
    why: Annotated[str, Field(min_length=1)]

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if (self.relative is None) == (self.absolute is None):
            raise ValueError("set exactly one of relative and absolute")
        return self


def list_names(kind: str) -> tuple[str, ...]:
    """The names in one folder of configs ("cases", "models", "targets", "comparisons", "tolerances")."""
    return tuple(sorted(path.stem for path in (CONFIG_ROOT / kind).glob("*.yml")))


def find(kind: str, name: str) -> Path:
    """The file of a name. Raises ConfigError with a suggestion when there is none."""
    names = list_names(kind)
    if name in names:
        return CONFIG_ROOT / kind / f"{name}.yml"
    singular = kind.removesuffix("s").replace("tolerance", "set of tolerances")
    near = suggest(name, names) or (
        f" (did you mean '{next(n for n in names if n.split('_', 1)[-1] == name)}'?)"
        if any(n.split("_", 1)[-1] == name for n in names)
        else ""
    )
    raise ConfigError([f"unknown {singular} '{name}'{near}; there are: {', '.join(names)}"])


def first_comment(path: Path) -> str:
    """The comment lines that open a YAML file, as one sentence."""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.lstrip("# ").strip())
    return " ".join(lines)


def _load[T: BaseModel](kind: str, stem: str, model: type[T], **extra: Any) -> T:
    path = find(kind, stem)
    data = read_yaml(path)
    shown = display_path(path)
    origins = {str(key): f"{shown}:{data.lc.key(key)[0] + 1}" for key in data}
    unknown = [
        f"{origins[str(key)]}: unknown key '{key}'{suggest(str(key), tuple(model.model_fields))}"
        for key in data
        if key not in model.model_fields
    ]
    if unknown:
        raise ConfigError(unknown)
    try:
        return model.model_validate({**plain(data), **extra})
    except ValidationError as error:
        raise ConfigError(
            [line if line.startswith(shown) else f"{shown}: {line}" for line in explain(error, origins)]
        ) from error


def load_comparison(name: str) -> Comparison:
    """A comparison by name."""
    return _load("comparisons", name, Comparison, name=name, question=first_comment(find("comparisons", name)))


def load_target(name: str) -> Target:
    """A target by name."""
    return _load("targets", name, Target, name=name)


def load_tolerances(name: str) -> dict[str, Tolerance]:
    """The tolerances of every metric in a set."""
    path = find("tolerances", name)
    data = read_yaml(path)
    shown = display_path(path)
    tolerances: dict[str, Tolerance] = {}
    problems: list[str] = []
    for metric, value in data.items():
        try:
            tolerances[str(metric)] = Tolerance.model_validate(plain(value))
        except ValidationError as error:
            where = f"{shown}:{data.lc.key(metric)[0] + 1}"
            problems += [f"{where}: {metric}: {line}" for line in explain(error, {})]
    if problems:
        raise ConfigError(problems)
    return tolerances


def load_layer(kind: str, name: str, layer: str) -> dict[str, Value]:
    """The config values of a model or case file."""
    path = find(kind, name)
    return layer_from_map(read_yaml(path), path, layer)


def set_layer(kind: str, name: str, layer: str) -> dict[str, Value]:
    """The config values under `set:` of a target or comparison file."""
    path = find(kind, name)
    data = read_yaml(path).get("set")
    return layer_from_map(data, path, layer) if data else {}


def arm_layer(comparison: str, arm: str) -> dict[str, Value]:
    """The config values that one arm of a comparison sets."""
    path = find("comparisons", comparison)
    for item in read_yaml(path)["arms"]:
        if item["name"] == arm:
            return layer_from_map(item["set"], path, "arm") if item.get("set") else {}
    raise ConfigError([f"{display_path(path)}: no arm '{arm}'"])
