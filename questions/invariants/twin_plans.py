"""Turns twins and cases into pairs of run plans, one per side; a twin without a pair has the reason."""

import shlex
import sys
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Any

from configs.comparison import Arm, Comparison, Target, load_target
from configs.environment import PASSED_ON
from configs.errors import ConfigError, Problems
from configs.frozen import Frozen
from configs.installed import trainer_commit
from configs.load import KEYS, ConfigValue, layer_from_overrides, merge_layers
from configs.names import default_cache, find, list_names
from configs.read import CONFIG_ROOT, display_path
from configs.trainers import find_kind
from questions.invariants.invariants_options import InvariantsOptions
from questions.invariants.twin_files import FOLDER, SEVERAL_DEVICES, SIDES, Twin, count_devices
from tasks.experiments.recordings import Both
from tasks.records.plan import WORK, ArmOverrides, RunFiles, RunPlan
from tasks.resolve.arm_config import ResolvedConfig, devices_of, layers_of_case
from tasks.resolve.arm_trainers import prepare_trainers
from tasks.resolve.commands import make_command
from tasks.resolve.plans import Request, hash_identity, name_run_folder, plan_run
from tasks.resolve.trainers import trainer_class
from tasks.resolve.trainers.command_trainer import digest_program
from tasks.resolve.trainers.maxtext import show_value
from tasks.resolve.trainers.trainer import SOURCE, Trainer

NAME = "invariants"
ONE_DEVICE = "cpu"
SEQUENCES = 8  # of a batch over all devices
# a step says nothing about an evaluation, a checkpoint or a restore beside it
OUTSIDE: dict[str, Any] = {"eval_interval": -1, "eval_steps": 1, "resume_after_step": -1, "enable_checkpointing": False}


class TwinPair(Frozen):
    """One twin in one case, with the plans of both sides, or the reason why it does not apply."""

    twin: Twin
    case: str
    plans: Both[RunPlan] | None = None
    why_not: str = ""


def choose_cases(request: InvariantsOptions) -> tuple[str, ...]:
    """Return the cases of a request; by default 01_base. Raises ConfigError for an unknown one."""
    if find_kind(request.trainer).takes_command:
        return ("command",)
    names = request.cases or ("01_base",)
    for name in names:
        if name != "all":
            find("cases", name)
    return tuple(dict.fromkeys(list_names("cases") if "all" in names else names))


def plan_twins(request: InvariantsOptions, twins: Sequence[Twin], out: Path) -> tuple[list[TwinPair], Trainer | None]:
    """Return a pair for each case and twin, and the trainer. Raises ConfigError, CheckoutError, SoftwareError."""
    cases = choose_cases(request)
    if find_kind(request.trainer).takes_command:
        own = [twin for twin in twins if twin.command]
        if not own:
            raise ConfigError(["--trainer command: name a file with its two command lines: --twin mine.yml"])
        return [
            TwinPair(twin=twin, case=_name_program(twin), plans=_plan_commands(request, twin, out)) for twin in own
        ], None
    if request.model:
        find("models", request.model)
    trainer = find_trainer(request)
    pairs = []
    for case in cases:
        for twin in twins:
            try:
                pairs.append(_plan_pair(request, trainer, twin, case, out))
            except ConfigError as error:
                pairs.append(TwinPair(twin=twin, case=case, why_not=error.problems[0]))
    return pairs, trainer


def find_trainer(request: InvariantsOptions) -> Trainer:
    """Return the trainer of a request, checked out and with its packages."""
    kind = trainer_class(request.trainer)
    facts: dict[str, Any] = {"trainer": request.trainer, "ref": request.ref or None}
    pythons = [word for word in request.software if "/" in word and "@" not in word]
    packages = tuple(word for word in request.software if word not in pythons)
    if request.ref and not request.software:
        packages = kind.release
    if pythons and (packages or len(pythons) > 1):
        raise ConfigError(["--with: name packages, or one Python"])
    facts |= {"packages": packages, "python": pythons[0] if pythons else None}
    repository = request.repository or kind.address
    comparison = Comparison(
        name=NAME,
        question="do the twins agree",
        trainer=request.trainer,
        target=ONE_DEVICE,
        cases=("01_base",),
        repeats=1,
        tolerances="default",
        arms=tuple(Arm(name=side, **facts) for side in SIDES),
        repository=repository if request.ref and repository else None,
    )
    if request.repository and not request.ref:
        raise ConfigError([f"--repository {request.repository}: name its branch, tag or commit with --ref, or --ref ."])
    return prepare_trainers(comparison, ArmOverrides(aa=bool(request.ref)), default_cache())[SIDES[0]]


def _plan_pair(request: InvariantsOptions, trainer: Trainer, twin: Twin, case: str, out: Path) -> TwinPair:
    """Return the pair of a twin in a case. Raises ConfigError if the trainer cannot run a side."""
    if request.trainer not in twin.trainers:
        return TwinPair(twin=twin, case=case, why_not=f"{request.trainer} has no such setting")
    case_config = _resolve(request, trainer, {}, case)[0].config.model_dump()
    if problem := twin.conflict(case_config):
        return TwinPair(twin=twin, case=case, why_not=problem)
    plans = []
    for side, setting in zip(SIDES, twin.sides, strict=True):
        merged = {**twin.both, **setting}
        resolved, target, more = _resolve(request, trainer, merged, case, origin=twin.origin)
        command = make_command(target, trainer, resolved.config, arm=side)
        plan = plan_run(
            Request(comparison=NAME, arms=ArmOverrides(aa=True)), target, resolved, command,
            case=case, arm=side, repeat=0, out=out,
        )  # fmt: skip
        plans.append(_with_words(plan, more))
    if plans[0].identity == plans[1].identity and not twin.is_about_more:
        return TwinPair(twin=twin, case=case, why_not="both sides are one setting in this case")
    return TwinPair(twin=twin, case=case, plans=(plans[0], plans[1]))


def _resolve(
    request: InvariantsOptions, trainer: Trainer, setting: dict[str, Any], case: str, *, origin: str = ""
) -> tuple[ResolvedConfig, Target, dict[str, Any]]:
    """Return the config of one side, its target, and the values of keys that only MaxText has."""
    root = CONFIG_ROOT
    more = {key: value for key, value in setting.items() if key not in KEYS}
    problems = Problems()
    for key in more:
        if key not in trainer.own_keys:
            problems.lines.append(f"{trainer.full_title} has no key '{key}'")
    problems.raise_any()
    own = {key: value for key, value in setting.items() if key in KEYS}
    one = load_target(ONE_DEVICE)
    layers = [read() for read in layers_of_case(one, case, request.model or None, root)]
    below = {key: value.value for layer in layers for key, value in layer.items()}
    needed = count_devices(below | own)
    target = one if needed == 1 else load_target(SEVERAL_DEVICES)
    if needed > 1:
        layers = [read() for read in layers_of_case(target, case, request.model or None, root)]
    small = {"max_target_length": 64, "per_device_batch_size": max(SEQUENCES // target.devices, 1)}
    *lower, case_layer = layers
    layers = [
        *lower,
        _layer(small, "target"),
        case_layer,
        _layer(trainer.only_values | OUTSIDE, "case"),
        _layer(own, "arm", origin),
    ]
    layers.append(layer_from_overrides(request.overrides))
    config, values = merge_layers(layers)
    problems.lines += trainer.find_problems(config, target, devices_of(target))
    problems.raise_any()
    resolved = ResolvedConfig(config=config, values=values)
    return _without_unknown(resolved, trainer, own), target, more


def _layer(values: dict[str, Any], layer: str, origin: str = NAME) -> dict[str, ConfigValue]:
    return {key: ConfigValue(value=value, origin=origin or NAME, layer=layer) for key, value in values.items()}


def _without_unknown(resolved: ResolvedConfig, trainer: Trainer, own: dict[str, Any]) -> ResolvedConfig:
    """Return the config without the keys that maxview's trainer lacks at an older commit."""
    known = trainer.known_keys({}, "", Problems(), CONFIG_ROOT)
    if known is None:
        return resolved
    if missing := [key for key in own if key not in known]:
        raise ConfigError([f"the trainer at {trainer.ref} has no key '{missing[0]}'"])
    return resolved.replace(values={k: v for k, v in resolved.values.items() if k in known})


def _with_words(plan: RunPlan, more: dict[str, Any]) -> RunPlan:
    """Return a plan of MaxText with further `key=value` arguments."""
    if not more:
        return plan
    kept = [word for word in plan.argv if word.partition("=")[0] not in more]
    words = [f"{key}={show_value(value)}" for key, value in more.items()]
    identity = hash_identity({"plan": plan.identity, "words": words})
    return plan.replace(argv=(*kept, *words), identity=identity, config=plan.config | more)


def _name_program(twin: Twin) -> str:
    """Return the name of a custom program's folder, which stands for the case."""
    return Path(twin.folder).expanduser().absolute().name or twin.name


def _plan_commands(request: InvariantsOptions, twin: Twin, out: Path) -> Both[RunPlan]:
    """Return the plans of a custom program's two command lines. A changed program has other identities."""
    folder = Path(twin.folder).expanduser().absolute()
    if not folder.is_dir():
        raise ConfigError([f"{twin.origin}: folder: {folder} is no folder: name the program's"])
    if len(request.software) > 1 or not all("/" in word for word in request.software):
        raise ConfigError(["--with: name one Python, which replaces {python} in the command"])
    python = str(Path(request.software[0]).expanduser().absolute()) if request.software else sys.executable
    target = load_target(ONE_DEVICE if twin.devices == 1 else SEVERAL_DEVICES)
    commit, dirty = trainer_commit(folder, ())
    plans = []
    for side, words in zip(SIDES, twin.sides, strict=True):
        given = tuple(word.replace("{python}", python) for word in (*twin.command, *(words or ())))
        source = digest_program(folder, given)
        facts = {"argv": given, "folder": str(folder), "environment": twin.environment, "source": source}
        identity = hash_identity(facts | {"devices": twin.devices})
        run_name = name_run_folder(twin.name, side, 0, identity)
        directory = out.absolute() / "runs" / run_name
        places = {"{out}": str(directory), "{checkout}": str(directory / WORK) if twin.copied else str(folder)}
        argv = tuple(reduce(lambda word, one: word.replace(*one), places.items(), word) for word in given)
        plans.append(
            RunPlan(
                comparison=NAME,
                case=_name_program(twin),
                arm=side,
                repeat=0,
                trainer="command",
                target=target.name,
                backend="local",
                config={"steps": 20},
                origins={},
                commit=None if dirty else commit,
                dirty=dirty,
                versions={SOURCE: source},
                environment=twin.environment | target.environment,
                passed_on=PASSED_ON,
                argv=argv,
                time_limit_s=target.time_limit_s,
                run_name=run_name,
                directory=str(directory),
                identity=identity,
                start_folder=str(folder),
                files=RunFiles(copy_at="." if twin.copied else None),
            )
        )
    return plans[0], plans[1]


def name_trainer(trainer: Trainer | None, pairs: Sequence[TwinPair]) -> str:
    """Return the trainer's version for people: of a custom program, its commit or the digest of its source."""
    if trainer is not None:
        return trainer.full_title
    plans = [pair.plans[0] for pair in pairs if pair.plans is not None]
    return ", ".join(dict.fromkeys(trainer_class(plan.trainer).name_version(plan, plan.commit) for plan in plans))


def command_of(request: InvariantsOptions, twin: Twin, case: str) -> str:
    """Return the command that asks for one twin in one case again."""
    words = ["maxview", NAME]
    words += ["--trainer", request.trainer] * (request.trainer != InvariantsOptions().trainer)
    words += [word for one in request.software for word in ("--with", one)]
    words += ["--ref", request.ref] * bool(request.ref)
    words += ["--repository", request.repository] * bool(request.repository)
    words += ["--case", case] * (not twin.command)
    words += ["--model", request.model] * bool(request.model)
    words += [word for one in request.overrides for word in ("--set", one)]
    file = twin.origin.rpartition(":")[0]
    words += ["--twin", twin.name if file == display_path(CONFIG_ROOT / FOLDER / f"{twin.name}.yml") else file]
    return shlex.join(words)
