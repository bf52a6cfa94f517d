"""Merges layers into a valid training config, with the origin of every value.

A layer is the config values from one source: a YAML file, or the command line.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.composer import MaxDepthExceededError
from ruamel.yaml.error import YAMLError

from configs.errors import ConfigError as ConfigError
from configs.errors import Problems, suggest
from configs.frozen import Frozen
from configs.read import CONFIG_ROOT as CONFIG_ROOT
from configs.read import MAX_VALUES, count_values, display_path, load_yaml, origin_of, read_yaml, to_python
from configs.schema import TrainConfig

COMMAND_LINE = "command line"
KEYS = tuple(TrainConfig.model_fields)
# MaxText's config key that is an option of maxview → the remedy in messages
ELSEWHERE = {"model_name": " (--model names a file in configs/models)"}


class ConfigValue(Frozen):
    """A config value with its origin and layer."""

    value: Any
    origin: str  # "configs/base.yml:12" or "command line"
    layer: str  # "base", "target", "model", "case", "arm", "comparison" or "command line"


type Layer = Mapping[str, ConfigValue]
type Location = tuple[str | int, ...]


def layer_from_map(data: CommentedMap, path: Path, layer: str) -> dict[str, ConfigValue]:
    """Return one layer of config values, by key, from the YAML mapping `data` of the file `path`."""
    return {
        str(key): ConfigValue(value=to_python(value), origin=origin_of(data, path, (key,)), layer=layer)
        for key, value in data.items()
    }


def layer_from_overrides(overrides: Sequence[str]) -> dict[str, ConfigValue]:
    """Return the layer of `key=value` arguments. Raises ConfigError.

    Values are parsed as YAML. Empty values, values of string keys, values that are not valid YAML, and collections
    of more than MAX_VALUES values stay text.
    """
    layer: dict[str, ConfigValue] = {}
    problems: list[str] = []
    for word in overrides:
        key, equals, text = word.partition("=")
        if not equals or not key:
            problems.append(f"{COMMAND_LINE}: '{word}' is not key=value (for example steps=30)")
        elif key in layer:
            problems.append(f"{COMMAND_LINE}: '{key}' is given twice ('{layer[key].value}' and '{text}'): keep one")
        else:
            try:
                layer[key] = ConfigValue(value=_read_value(key, text), origin=COMMAND_LINE, layer=COMMAND_LINE)
            except MaxDepthExceededError:
                problems.append(f"{COMMAND_LINE}: '{key}' is nested too deeply ({text!r:.40}): give a plain value")
    if problems:
        raise ConfigError(problems)
    return layer


def _read_value(key: str, text: str) -> Any:
    field = TrainConfig.model_fields.get(key)
    if not text or (field is not None and field.annotation is str):  # run_name=20261118 is a name, not a number
        return text
    try:
        value = load_yaml(text, typ="safe")
    except MaxDepthExceededError:
        raise
    except YAMLError:
        return text
    return value if count_values(value) <= MAX_VALUES else text


def merge_layers(layers: Sequence[Layer]) -> tuple[TrainConfig, dict[str, ConfigValue]]:
    """Return the valid config of merged layers, and the effective value of each key. Later layers take precedence.

    Raises ConfigError for unknown keys, and for keys whose value from the model file the command line would replace
    (MaxText rejects them too, because it would silently ignore one of the values). The error also lists missing keys;
    if there are none, wrong types and ranges; if there are none of these either, contradictory values.
    """
    problems = Problems()
    merged: dict[str, ConfigValue] = {}
    for layer in layers:
        problems.lines += unknown_keys(layer)
        for key, value in layer.items():
            before = merged.get(key)
            if key not in KEYS:
                continue
            if value.layer == COMMAND_LINE and before is not None and before.layer == "model":
                problems.lines.append(
                    f"{value.origin}: '{key}' is set by the model file too ({before.origin}); "
                    "take it from the command line, or copy the model file and change it there"
                )
            else:
                merged[key] = value
    missing = [key for key in KEYS if key not in merged]
    if missing:
        problems.lines.append(f"not set anywhere: {', '.join(missing)} (base.yml gives every key its default)")
        problems.raise_any()
    config = problems.attempt(
        lambda: validate({k: v.value for k, v in merged.items()}, {k: v.origin for k, v in merged.items()})
    )
    problems.raise_any()
    assert config is not None  # else `raise_any` has raised
    return config, merged


def unknown_keys(layer: Layer) -> list[str]:
    """Return a problem for every unknown key in a layer, with a remedy or a similar known key if there is one."""
    return [
        f"{v.origin}: unknown key '{key}'{ELSEWHERE.get(key) or suggest(key, KEYS)}"
        for key, v in layer.items()
        if key not in KEYS
    ]


def validate(values: Mapping[str, Any], origins: Mapping[str, str]) -> TrainConfig:
    """Return the config with these values. Raises ConfigError naming where each bad value was set."""
    try:
        return TrainConfig.model_validate(dict(values), strict=True)
    except ValidationError as error:
        raise ConfigError(explain_errors(error, lambda keys: origins.get(str(keys[0]), ""), KEYS)) from error


def read_entries[K: str, M: BaseModel](
    data: CommentedMap, path: Path, model: type[M], known: Sequence[K], what: str, *, required: Sequence[str] = ()
) -> dict[K, M]:
    """Return a file's values by key, each as a record of the class `model`. Raises ConfigError.

    `known`: the allowed keys; `required`: keys that must not be missing; `what`: a noun for a key, in messages.
    """
    found: dict[K, M] = {}
    problems: list[str] = []
    for name, value in data.items():
        where = origin_of(data, path, (name,))
        if name not in known:
            problems.append(f"{where}: unknown {what} '{name}'{suggest(str(name), known)}")
            continue
        try:
            found[name] = model.model_validate(to_python(value))
        except ValidationError as error:
            problems += [
                f"{where}: {name}: {line}" for line in explain_errors(error, lambda _: "", tuple(model.model_fields))
            ]
    problems += [f"{display_path(path)}: {name} is missing" for name in required if name not in data]
    if problems:
        raise ConfigError(problems)
    return found


def explain_errors(error: ValidationError, locate: Callable[[Location], str], known: Sequence[str]) -> list[str]:
    """Return pydantic's errors as lines, such as `file:line: key: expected value, got x`.

    `locate` returns `file:line` of the value at a path of keys, or ""; `known`: keys to suggest for unknown keys.
    """
    lines = []
    for item in error.errors(include_url=False):
        keys: Location = item["loc"]
        if not keys:
            lines += [_add_origins(line, locate, item["input"]) for line in _strip_prefix(item["msg"]).splitlines()]
            continue
        name = ".".join(str(key) for key in keys)
        if item["type"] == "missing":
            text = f"{name} is missing"
        elif item["type"] == "extra_forbidden":
            text = f"unknown key '{keys[-1]}'{suggest(str(keys[-1]), known)}"
        else:
            text = f"{name}: {_strip_prefix(item['msg']).removeprefix('Input ')}, got {item['input']!r:.80}"
        lines.append(": ".join(part for part in (locate(keys), text) if part))
    return lines


def _strip_prefix(message: str) -> str:
    """Return the message without the prefix that pydantic adds for a ValueError."""
    return message.removeprefix("Value error, ")


def _add_origins(line: str, locate: Callable[[Location], str], values: Any) -> str:
    """Return the message `line`, followed by value and origin of the keys in it.

    If no key with an origin is in it, the file precedes the message, if it is known. `values`: value by key.
    """
    named = [key for key in values if re.search(rf"\b{re.escape(key)}\b", line)] if isinstance(values, Mapping) else []
    where = [f"{key} = {values[key]!r:.80} from {origin}" for key in named if (origin := locate((key,)))]
    if where:
        return f"{line}: {', '.join(where)}"
    return ": ".join(part for part in (locate(("",)), line) if part)


def load_train_config(path: Path, overrides: Sequence[str]) -> TrainConfig:
    """Return a run's config: the values of base.yml, replaced by the file `path`, then by `key=value` arguments."""
    base = CONFIG_ROOT / "base.yml"
    problems = Problems()
    layers = [
        problems.attempt(lambda: layer_from_map(read_yaml(base), base, "base")),
        problems.attempt(lambda: layer_from_map(read_yaml(path), path, "case")),
        problems.attempt(lambda: layer_from_overrides(overrides)),
    ]
    problems.raise_any()
    config, _ = merge_layers([layer for layer in layers if layer is not None])
    return config
