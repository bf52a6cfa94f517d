"""Resolves the config of one arm for one case from the files in configs/ and the command line.

An arm is one of the two compared versions, a case a set of config values that both arms share.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from pydantic import ValidationError

from configs.checks import Devices
from configs.comparison import Comparison, Target, arm_layer, load_layer, read_set_layer
from configs.errors import Problems
from configs.frozen import Frozen
from configs.installed import machine_memory_gib
from configs.load import (
    COMMAND_LINE,
    KEYS,
    ConfigValue,
    explain_errors,
    layer_from_map,
    layer_from_overrides,
    merge_layers,
)
from configs.model_checks import MESH_KEYS
from configs.read import CONFIG_ROOT, read_yaml
from configs.schema import TrainConfig
from tasks.resolve.trainers import trainer_class
from tasks.resolve.trainers.trainer import Trainer

LAYERS = ("base", "target", "model", "case", "arm", "comparison", COMMAND_LINE)  # later layers override earlier ones
# keys whose values follow from the run's folder
RUN_FOLDER_KEYS = ("run_name", "base_output_directory", "metrics_file")
# A case's values of these keys do not override the values of a model's file that sets num_experts.
EXPERTS = ("num_experts", "num_experts_per_tok", "norm_topk_prob")


class ResolvedConfig(Frozen):
    """A valid config, and the effective value of every key with its origin."""

    config: TrainConfig
    values: dict[str, ConfigValue]


def resolve_config(
    comparison: Comparison,
    target: Target,
    *,
    case: str,
    arm: str,
    overrides: Sequence[str] = (),
    model: str | None = None,
    root: Path = CONFIG_ROOT,
    own: tuple[str, Path] | None = None,
) -> ResolvedConfig:
    """Return one arm's config for one case, merged from the LAYERS.

    own: ref and config folder of the arm's checkout, whose values of base, model and case apply instead of those in
    `root`: a changed default is a change of the arm.
    Raises ConfigError with every problem of the layers; the merged values are checked only if there is none.
    """
    problems = Problems()
    readers = layers_of_case(target, case, model, root, own)
    readers += [
        partial(arm_layer, comparison.name, arm, root=root),
        partial(read_set_layer, "comparisons", comparison.name, "comparison", root=root),
        partial(layer_from_overrides, overrides),
    ]
    read = [layer for reader in readers if (layer := problems.attempt(reader)) is not None]
    problems.raise_any()
    meant = {key for side in comparison.arms for key in side.set}
    for layer in read[-2:]:  # comparison and command line override the arms
        problems.lines += [
            f"{value.origin}: '{key}' is what the arms of {comparison.name} differ in: set here, both would be the same"
            for key, value in layer.items()
            if key in meant
        ]
    problems.lines += [
        f"{value.origin}: '{key}' is decided by the run's folder (compare with --out to choose where that is)"
        for layer in read[1:]
        for key, value in layer.items()
        if key in RUN_FOLDER_KEYS
    ]
    merged = problems.attempt(lambda: merge_layers(read))
    problems.raise_any()
    assert merged is not None  # else `raise_any` has raised
    config, values = merged
    side = next(side for side in comparison.arms if side.name == arm)
    found = trainer_class(comparison.trainer_of(side)).find_problems(config, target, devices_of(target))
    problems.lines += [_with_origin(line, values) for line in found]
    problems.raise_any()
    return ResolvedConfig(config=config, values=values)


def layers_of_case(
    target: Target, case: str, model: str | None, root: Path, own: tuple[str, Path] | None = None
) -> list[Callable[[], dict[str, ConfigValue]]]:
    """Return functions that read the layers base, target, model and case, in this order; each raises ConfigError.

    own: as in `resolve_config`. Where it runs is no part of the change, so the target's layer is that of `root`.
    """
    name = model or target.model

    def read(file: str, read_in: Callable[[Path], dict[str, ConfigValue]]) -> dict[str, ConfigValue]:
        ours = read_in(root)
        if own is None or not (own[1] / file).is_file():
            return ours
        return _apply_own(ours, read_in(own[1]), *own)

    return [
        partial(read, "base.yml", _load_base),
        partial(read_set_layer, "targets", target.name, "target", root=root),
        partial(read, f"models/{name}.yml", lambda place: load_layer("models", name, "model", root=place)),
        partial(read, f"cases/{case}.yml", lambda place: load_case(case, name, place, root)),
    ]


def _load_base(root: Path) -> dict[str, ConfigValue]:
    return layer_from_map(read_yaml(root / "base.yml"), root / "base.yml", "base")


def _apply_own(
    ours: dict[str, ConfigValue], theirs: dict[str, ConfigValue], ref: str, folder: Path
) -> dict[str, ConfigValue]:
    """Return the layer of an arm's checkout: of keys that exist here, with the base's values of keys that it lacks."""
    shared = {key: value for key, value in ours.items() if key in theirs or value.layer == "base"}
    changed = {
        key: value.replace(origin=value.origin.replace(str(folder), f"{ref}:configs", 1))
        for key, value in theirs.items()
        if key in KEYS and (key not in ours or ours[key].value != value.value)
    }
    return shared | changed


def load_case(case: str, model: str, place: Path, root: Path) -> dict[str, ConfigValue]:
    """Return the values that a case in `place` sets, without EXPERTS if the model's file in `root` has num_experts."""
    values = load_layer("cases", case, "case", root=place)
    own = load_layer("models", model, "model", root=root) if values.keys() & set(EXPERTS) else {}
    return {key: value for key, value in values.items() if key not in EXPERTS or "num_experts" not in own}


def devices_of(target: Target) -> Devices:
    """Return the devices of the target; CPU devices here, if without `memory_gib`, share this machine's memory."""
    memory = target.device_memory_gib
    if memory is None and target.trains_here and target.platform == "cpu":
        memory = machine_memory_gib() / target.devices
    return Devices(count=target.devices, platform=target.platform, memory_gib=memory)


def _with_origin(line: str, values: Mapping[str, ConfigValue]) -> str:
    """Return the problem `line` after the origin of the key that it names; the latest layer's, if it names several."""
    keys = [key for key in values if re.search(rf"\b{key}=", line)]
    origins = [values[key] for key in keys if values[key].layer != "base"] or [values[key] for key in keys]
    last = max(origins, key=lambda value: LAYERS.index(value.layer))
    return f"{last.origin}: {line}"


def find_unfit_cases(
    names: Sequence[str], target: Target, *, model: str | None = None, root: Path = CONFIG_ROOT
) -> dict[str, str]:
    """Return the cases that do not fit the model (default: the target's) or the target's devices: case → reason.

    Raises ConfigError if a file cannot be read.
    """
    found: dict[str, str] = {}
    for case in names:
        layers = layers_of_case(target, case, model, root)
        values = {key: value.value for read in layers for key, value in read().items()}
        try:
            TrainConfig.model_validate(values, strict=True)
        except ValidationError as error:
            # Errors without a location are contradictions between keys. resolve_config reports single bad values.
            if not any(item["loc"] for item in error.errors()):
                found[case] = explain_errors(error, lambda _: "", ())[0]
                continue
        sizes = [values[key] for key in MESH_KEYS.values()]
        needed = math.prod(size for size in sizes if size > 0)
        if target.devices % needed or (target.devices != needed and -1 not in sizes):
            found[case] = f"needs {needed} devices, {target.name} has {target.devices}"
    return found


def fit_config(
    resolved: ResolvedConfig, trainer: Trainer, arm: str, problems: Problems, *, root: Path = CONFIG_ROOT
) -> ResolvedConfig:
    """Return the config without the keys that the arm's trainer lacks, for example at an older commit.

    Adds to `problems` each missing key that the user set.
    """
    known = trainer.known_keys(resolved.values, arm, problems, root)
    if known is None:
        return resolved
    return resolved.replace(values={k: v for k, v in resolved.values.items() if k in known})
