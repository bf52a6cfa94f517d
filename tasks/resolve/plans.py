"""Resolves a request (a comparison's name and options) into run plans: config, command and identity of every run."""

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from configs.checks import Devices, find_problems
from configs.comparison import (
    Comparison,
    Target,
    arm_layer,
    find,
    list_names,
    load_comparison,
    load_layer,
    load_target,
    read_set_layer,
)
from configs.custom_trainer import CommandTemplate
from configs.data_checks import find_data_problems
from configs.durations import MOST_REPEATS
from configs.errors import ConfigError, Problems
from configs.installed import machine_memory_gib
from configs.load import COMMAND_LINE, Value, explain, layer_from_map, layer_from_overrides, merge_layers, unknown_keys
from configs.model_checks import MESH_KEYS
from configs.read import CONFIG_ROOT, read_yaml
from configs.schema import PLACE_KEYS, Frozen, TrainConfig
from configs.verdict_rules import VerdictRules, load_verdict_rules
from tasks.records import RunPlan, SharedStart
from tasks.resolve.arm_trainers import ArmOverrides, place_arms
from tasks.resolve.blessed import check_baselines
from tasks.resolve.commands import Command, make_command, make_compile
from tasks.resolve.identify import hash_identity, name_run
from tasks.resolve.trainers.trainer_source import TrainerSource

LAYERS = ("base", "target", "model", "case", "arm", "comparison", COMMAND_LINE)  # later layers override earlier ones
RUN_FOLDER_KEYS = ("run_name", "base_output_directory", "metrics_file")  # decided by the run's folder
EXPERTS = ("num_experts", "num_experts_per_tok", "norm_topk_prob")  # of a case; a model with experts keeps its own


class ResolvedConfig(Frozen):
    """A valid config, and the effective value of every key with its origin."""

    config: TrainConfig
    values: dict[str, Value]


class Request(Frozen):
    """A user's request: a comparison's name and the options that replace values of its file."""

    comparison: str
    cases: tuple[str, ...] = ()  # empty: the comparison's own; "all": every case that fits the target
    target: str | None = None  # None: the comparison's own
    model: str | None = None  # None: the target's own
    repeats: int | None = None  # runs per arm; None: as in the comparison's file
    overrides: tuple[str, ...] = ()  # key=value, for both arms
    fresh: str = ""  # any text; gives the runs new identities, so that no finished run is reused
    arms: ArmOverrides = ArmOverrides()  # refs and software of the arms
    rules: VerdictRules | None = None  # read when the night began; None: read the files now
    blessed: str = ""  # where the baseline files are whose runs replace the first arm's; empty: train both arms
    compile_only: bool = False  # compile for the target's topology on this machine; train nothing


def resolve_config(
    comparison: Comparison,
    target: Target,
    *,
    case: str,
    arm: str,
    overrides: Sequence[str] = (),
    model: str | None = None,
    root: Path = CONFIG_ROOT,
) -> ResolvedConfig:
    """Return one arm's config for one case: the LAYERS, merged. Later layers override earlier ones.

    Raises ConfigError with every problem of every layer.
    """
    problems = Problems()
    readers = layers_of_case(target, case, model, root)
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
    assert merged is not None  # else there was a problem
    config, values = merged
    side = next(side for side in comparison.arms if side.name == arm)
    # replayed logs train nothing, and the limits of a custom trainer are unknown
    trainer = comparison.trainer_of(side)
    if not target.plays_logs and trainer != "command":
        found = [*find_problems(config, devices_of(target))]
        if target.trains_here and trainer == "maxview":  # remote files and MaxText's formats are not checked
            found += find_data_problems(config)
        problems.lines += [_with_origin(line, values) for line in found]
    problems.raise_any()
    return ResolvedConfig(config=config, values=values)


def layers_of_case(target: Target, case: str, model: str | None, root: Path) -> list[Callable[[], dict[str, Value]]]:
    """Return functions that read the layers base, target, model and case, in this order; each raises ConfigError."""
    base, model = root / "base.yml", model or target.model
    return [
        lambda: layer_from_map(read_yaml(base), base, "base"),
        partial(read_set_layer, "targets", target.name, "target", root=root),
        partial(load_layer, "models", model, "model", root=root),
        partial(load_case, case, model, root),
    ]


def load_case(case: str, model: str, root: Path) -> dict[str, Value]:
    """Return the values that a case sets, without EXPERTS if the model's file sets num_experts."""
    values = load_layer("cases", case, "case", root=root)
    own = load_layer("models", model, "model", root=root) if values.keys() & set(EXPERTS) else {}
    return {key: value for key, value in values.items() if key not in EXPERTS or "num_experts" not in own}


def devices_of(target: Target) -> Devices:
    """Return the devices of the target; a CPU target's devices share this machine's memory."""
    memory = target.device_memory_gib
    if memory is None and target.trains_here and target.platform == "cpu":
        memory = machine_memory_gib() / target.devices
    return Devices(count=target.devices, platform=target.platform, memory_gib=memory)


def _with_origin(line: str, values: Mapping[str, Value]) -> str:
    """Return a problem prefixed with the origin of the key that it names; of several keys, of the last layer's key."""
    keys = [key for key in values if re.search(rf"\b{key}=", line)]
    origins = [values[key] for key in keys if values[key].layer != "base"] or [values[key] for key in keys]
    last = max(origins, key=lambda value: LAYERS.index(value.layer))
    return f"{last.origin}: {line}"


def resolve(request: Request, out: Path, *, root: Path = CONFIG_ROOT, cache: Path | None = None) -> list[RunPlan]:
    """Return the plans of a request in the order of their runs: case by case, arms alternating (A B A B).

    Creates the arms' checkouts and environments in `cache`. Raises ConfigError with every problem of the input,
    CheckoutError and SoftwareError.
    """
    comparison, target, cases = check_request(request, root)
    problems = Problems()
    configs: dict[tuple[str, str], ResolvedConfig] = {}
    for case in cases:
        for arm in comparison.arms:
            read = partial(resolve_config, comparison, target, case=case, arm=arm.name, root=root)
            config = problems.attempt(partial(read, overrides=request.overrides, model=request.model))
            if config is not None:
                configs[case, arm.name] = config
    problems.raise_any()
    checkouts = place_arms(comparison, request.arms, cache or default_cache())
    configs = {
        (case, arm): fit_config(config, checkouts[arm], arm, problems, root=root)
        for (case, arm), config in configs.items()
    }
    problems.raise_any()
    repeats = comparison.repeats if request.repeats is None else request.repeats
    arms = comparison.arms[1:] if request.blessed else comparison.arms
    runs = [(case, arm.name, repeat) for case in cases for repeat in range(repeats) for arm in arms]
    runs = [run for run in runs if run[-1] == 0 or not request.compile_only]

    def command_of(case: str, arm: str, repeat: int) -> Command:
        checkout, config = checkouts[arm], configs[case, arm].config
        if request.compile_only:
            return make_compile(target, checkout, config, arm=arm, anew=bool(request.fresh))
        return make_command(target, checkout, config, case=case, arm=arm, repeat=repeat)

    commands = [problems.attempt(partial(command_of, *run)) for run in runs]
    read_rules = partial(load_verdict_rules, comparison.name, target.name, root=root)
    rules = request.rules or problems.attempt(read_rules)
    problems.lines = list(dict.fromkeys(problems.lines))
    problems.raise_any()
    plans: list[RunPlan] = []
    shared = comparison.shares_start and not target.plays_logs and not request.compile_only
    if shared and request.blessed:
        reason = "its second arm starts with the first arm's state, which a baseline does not hold"
        raise ConfigError([f"{comparison.name}: {reason}; set `start: own` in the comparison and bless it again"])
    for (case, side, repeat), command in zip(runs, commands, strict=True):
        assert command is not None  # else there was a problem
        first = side == comparison.arms[0].name  # the second arm's plan follows the first arm's directly
        start = SharedStart(taken_from=None if first else plans[-1].run_name) if shared else None
        resolved = configs[case, side]
        plan = plan_run(
            request, target, resolved, command, case=case, arm=side, repeat=repeat, out=out, rules=rules, start=start
        )
        plans.append(plan)
    if request.blessed:
        check_baselines(plans, request.blessed)
    return plans


def plan_run(
    request: Request,
    target: Target,
    resolved: ResolvedConfig,
    command: Command,
    *,
    case: str,
    arm: str,
    repeat: int,
    out: Path,
    rules: VerdictRules | None = None,
    start: SharedStart | None = None,
) -> RunPlan:
    """Return the plan of one run. Its identity depends on neither its folder nor its time limit."""
    checkout, compiles_for = command.checkout, target.topology if request.compile_only else None
    if compiles_for:  # a compile runs on this machine, without the target's launch settings
        here = {"backend": "local", "environment": {}, "pass_on": (), "wrap": (), "launch": {}}
        target = target.model_copy(update=here)
    config = {key: value for key, value in resolved.config.model_dump().items() if key in resolved.values}
    facts: dict[str, Any] = {
        "config": {key: value for key, value in config.items() if key not in PLACE_KEYS},
        "trainer": checkout.trainer,
        "target": target.model_dump(include={"name", "backend", "devices", "environment"}),
        "versions": checkout.versions,
        "repeat": repeat,
        "fresh": request.fresh,
    }
    if checkout.folder is not None:  # keeps runs of two commits with equal source apart
        facts["commit"] = checkout.commit
    if checkout.software:
        facts["software"] = checkout.software
    if start is not None and target.trains_here:  # runs elsewhere cannot share their start
        facts["start"] = start.taken_from or "kept"
    identity = hash_identity(facts | command.facts)
    run_name = name_run(case, f"{arm}-compile" if compiles_for else arm, repeat, identity)
    directory = out.absolute() / "runs" / run_name  # absolute, because the trainer starts in another folder
    place = {"run_name": run_name, "base_output_directory": str(directory.parent)}
    origins = {key: value.origin for key, value in resolved.values.items()}
    invocation = command.invoke(directory)
    same = ("trainer", "commit", "dirty", "versions", "ref", "repository", "commits", "code", "software")
    return RunPlan(
        **{name: getattr(checkout, name) for name in same},
        comparison=request.comparison,
        case=case,
        arm=arm,
        repeat=repeat,
        target=target.name,
        backend=target.backend,
        config=config | place,
        origins=origins | dict.fromkeys(place, "the run's identity"),
        environment=invocation.environment | target.environment,
        passed_on=target.passed_on,
        argv=(*target.wrap, *invocation.argv),
        time_limit_s=target.time_limit_s,
        log_limit_mb=target.log_limit_mb,
        run_name=run_name,
        directory=str(directory),
        identity=identity,
        checkout=checkout.folder,
        aa=request.arms.aa,
        rules=rules,
        launch=command.settings,
        files=invocation.files,
        compiles_for=compiles_for,
        start=start,
        start_folder=checkout.command.folder if checkout.command else None,
    )


def fit_config(
    resolved: ResolvedConfig, checkout: TrainerSource, arm: str, problems: Problems, *, root: Path = CONFIG_ROOT
) -> ResolvedConfig:
    """Return the config without the keys that the arm's trainer does not have, for example at an older commit.

    A missing key is dropped if only base.yml sets it, else added to `problems`.
    """
    if checkout.command is not None:
        return _fit_command(resolved, checkout.command.template, arm, problems, read_yaml(root / "base.yml"))
    if checkout.folder is None or checkout.maxtext is not None:  # MaxText's command checks its own keys
        return resolved
    base = Path(checkout.folder) / "configs" / "base.yml"
    known = problems.attempt(partial(read_yaml, base))
    if known is None:
        return resolved
    problems.lines += [
        f"{value.origin}: '{key}' is no key of {arm}'s trainer ('{checkout.ref}', {checkout.commit})"
        for key, value in resolved.values.items()
        if key not in known and value.layer != "base"
    ]
    return resolved.model_copy(update={"values": {k: v for k, v in resolved.values.items() if k in known}})


def _fit_command(
    resolved: ResolvedConfig, template: CommandTemplate, arm: str, problems: Problems, base: Mapping[str, Any]
) -> ResolvedConfig:
    """Return the config with `steps` and the keys that a command template has placeholders for.

    Values of a model or target are dropped, because a custom program has its own model. Any other dropped value that
    differs from base.yml's is added to `problems`, because the program would never receive it.
    """
    known = template.names | {"steps"}
    problems.lines += [
        f"{value.origin}: '{key}' has no place in the command of {arm}: write {{{key}}} into one of its arguments"
        for key, value in resolved.values.items()
        if key not in known and value.layer not in ("base", "target", "model") and value.value != base[key]
    ]
    return resolved.model_copy(update={"values": {k: v for k, v in resolved.values.items() if k in known}})


def default_cache() -> Path:
    """Return the folder of checkouts and environments: $MAXVIEW_CACHE, or ~/.cache/maxview."""
    return Path(os.environ.get("MAXVIEW_CACHE") or Path.home() / ".cache" / "maxview").absolute()


def find_unfit(
    names: Sequence[str], target: Target, *, model: str | None = None, root: Path = CONFIG_ROOT
) -> dict[str, str]:
    """Return the cases that do not fit the model (default: the target's) or the target's devices: case → reason."""
    if target.plays_logs:
        return {}
    found: dict[str, str] = {}
    for case in names:
        layers = layers_of_case(target, case, model, root)
        values = {key: value.value for read in layers for key, value in read().items()}
        try:
            TrainConfig.model_validate(values, strict=True)
        except ValidationError as error:
            # Errors without a location are contradictions between keys. resolve_config reports single bad values.
            if not any(item["loc"] for item in error.errors()):
                found[case] = explain(error, lambda _: "", ())[0]
                continue
        sizes = [values[key] for key in MESH_KEYS.values()]
        needed = math.prod(size for size in sizes if size > 0)
        if target.devices % needed or (target.devices != needed and -1 not in sizes):
            found[case] = f"needs {needed} devices, {target.name} has {target.devices}"
    return found


def check_request(request: Request, root: Path = CONFIG_ROOT) -> tuple[Comparison, Target, list[str]]:
    """Return the request's comparison, target and cases, each case once. Raises ConfigError with every problem."""
    problems = Problems()
    comparison = problems.attempt(partial(load_comparison, request.comparison, root=root))
    place = request.target or (comparison.target if comparison else None)
    target = problems.attempt(partial(load_target, place, root=root)) if place else None
    wanted = request.cases or (comparison.cases if comparison else ())
    for case in wanted:
        if case != "all":
            problems.attempt(partial(find, "cases", case, root=root))
    if request.model:
        problems.attempt(partial(find, "models", request.model, root=root))
    words = problems.attempt(partial(layer_from_overrides, request.overrides))
    if request.repeats is not None and not 1 <= request.repeats <= MOST_REPEATS:
        problems.lines.append(f"--repeats must be 1 to {MOST_REPEATS}, got {request.repeats}")
    if problems.lines:  # unknown keys are otherwise reported when the layers are merged
        problems.lines += unknown_keys(words or {})
    problems.raise_any()
    assert comparison is not None  # else there was a problem
    assert target is not None
    names: Sequence[str] = wanted
    if "all" in wanted:
        every = list_names("cases", root=root)
        unfit = find_unfit(every, target, model=request.model, root=root)
        names = [case for case in every if case not in unfit]
    return comparison, target, list(dict.fromkeys(names))
