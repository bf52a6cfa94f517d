"""Reads YAML layers into values that remember where they were set, and checks them against the schema."""

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.error import MarkedYAMLError

from configs.schema import Frozen, TrainConfig

CONFIG_ROOT = Path(__file__).parent
COMMAND_LINE = "command line"


class ConfigError(ValueError):
    """Every problem of one input, each as `file:line: what is wrong (what to do)`."""

    def __init__(self, problems: list[str]):
        super().__init__("\n".join(problems))
        self.problems = problems


class Value(Frozen):
    """A config value, where it was set, and which layer set it."""

    value: Any
    origin: str  # "configs/base.yml:12" or "command line"
    layer: str  # "base", "target", "model", "case", "arm", "comparison" or "command line"


type Layer = Mapping[str, Value]


def display_path(path: Path) -> str:
    """`configs/…` for a file of ours wherever it is installed, else the path as given."""
    try:
        return str(Path("configs") / path.resolve().relative_to(CONFIG_ROOT.resolve()))
    except ValueError:
        return str(path)


def read_yaml(path: Path) -> CommentedMap:
    """The mapping in a YAML 1.2 file, with line numbers. Raises ConfigError with file:line."""
    shown = display_path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError([f"{shown}: cannot be read: {error.strerror or error}"]) from error
    except UnicodeDecodeError as error:
        raise ConfigError([f"{shown}: is not UTF-8 text"]) from error
    try:
        data = YAML(typ="rt").load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{shown}:{mark.line + 1}" if mark else shown
        raise ConfigError([f"{where}: not valid YAML: {error.problem or error.context}"]) from error
    if data is None:
        return CommentedMap()
    if not isinstance(data, CommentedMap):
        raise ConfigError([f"{shown}:1: expected `key: value` lines, got a {type(data).__name__}"])
    return data


def layer_from_map(data: CommentedMap, path: Path, layer: str) -> dict[str, Value]:
    """One layer of config values out of a YAML mapping."""
    shown = display_path(path)
    return {
        str(key): Value(value=plain(value), origin=f"{shown}:{data.lc.key(key)[0] + 1}", layer=layer)
        for key, value in data.items()
    }


def plain(value: Any) -> Any:
    """A YAML value without ruamel's own types."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, bool) or value is None:
        return value
    for kind in (int, float, str):
        if isinstance(value, kind):
            return kind(value)
    return value


def layer_from_overrides(overrides: list[str]) -> dict[str, Value]:
    """The layer of `key=value` words from a command line; values are read as YAML."""
    layer: dict[str, Value] = {}
    problems: list[str] = []
    for word in overrides:
        key, equals, text = word.partition("=")
        if not equals or not key:
            problems.append(f"{COMMAND_LINE}: '{word}' is not key=value (for example --set steps=30)")
            continue
        try:
            value = YAML(typ="safe").load(text) if text else ""
        except MarkedYAMLError:
            value = text
        layer[key] = Value(value=value, origin=COMMAND_LINE, layer=COMMAND_LINE)
    if problems:
        raise ConfigError(problems)
    return layer


def suggest(word: str, known: list[str] | tuple[str, ...]) -> str:
    """` (did you mean 'x'?)`, or nothing if no known word is near."""
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f" (did you mean '{near[0]}'?)" if near else ""


def merge_layers(layers: list[Layer]) -> tuple[TrainConfig, dict[str, Value]]:
    """Merge layers, later wins, into a checked config and the winning value of each key.

    Raises ConfigError with every problem: unknown keys, wrong types or ranges, and keys that both the model file and
    the command line set (MaxText refuses these too: one of the two would be silently ignored).
    """
    problems: list[str] = []
    known = list(TrainConfig.model_fields)
    merged: dict[str, Value] = {}
    for layer in layers:
        for key, value in layer.items():
            if key not in TrainConfig.model_fields:
                problems.append(f"{value.origin}: unknown key '{key}'{suggest(key, known)}")
                continue
            before = merged.get(key)
            if value.layer == COMMAND_LINE and before is not None and before.layer == "model":
                problems.append(
                    f"{value.origin}: '{key}' is set by the model file too ({before.origin}); "
                    "take it from the command line, or copy the model file and change it there"
                )
                continue
            merged[key] = value
    missing = [key for key in known if key not in merged]
    if missing:
        problems.append(f"not set anywhere: {', '.join(missing)}")
    if problems:
        raise ConfigError(problems)
    return validate({k: v.value for k, v in merged.items()}, {k: v.origin for k, v in merged.items()}), merged


def validate(values: dict[str, Any], origins: Mapping[str, str]) -> TrainConfig:
    """Check values against the schema. Raises ConfigError naming where each bad value was set."""
    try:
        return TrainConfig.model_validate(values, strict=True)
    except ValidationError as error:
        raise ConfigError(explain(error, origins)) from error


def explain(error: ValidationError, origins: Mapping[str, str]) -> list[str]:
    """pydantic's errors as `file:line: key: got x; expected y` lines."""
    lines = []
    for item in error.errors():
        key = ".".join(str(part) for part in item["loc"])
        where = origins.get(str(item["loc"][0]), "") if item["loc"] else ""
        prefix = f"{where}: " if where else ""
        message = item["msg"].removeprefix("Value error, ")
        got = f", got {item['input']!r}" if key and not isinstance(item["input"], Mapping) else ""
        lines.append(f"{prefix}{f'{key}: ' if key else ''}{message[0].lower()}{message[1:]}{got}")
    return lines


def load_train_config(path: Path, overrides: list[str]) -> TrainConfig:
    """The config of one run from a YAML file over base.yml, plus `key=value` overrides (the trainer's command line)."""
    base = CONFIG_ROOT / "base.yml"
    config, _ = merge_layers(
        [
            layer_from_map(read_yaml(base), base, "base"),
            layer_from_map(read_yaml(path), path, "case"),
            layer_from_overrides(overrides),
        ]
    )
    return config
