"""Resolves a request (a comparison's name and options) into run plans: config, command and identity of every run.

A comparison trains two arms (the compared versions) in some cases (named settings), each arm once per repeat.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

from configs.comparison import MAX_REPEATS, Comparison, Target, load_comparison, load_target
from configs.errors import ConfigError, Problems
from configs.frozen import Frozen
from configs.load import layer_from_overrides, unknown_keys
from configs.names import default_cache, find, list_names
from configs.read import CONFIG_ROOT
from configs.schema import PLACE_KEYS, TrainConfig
from configs.verdict_rules import VerdictRules, load_verdict_rules
from tasks.records.plan import ArmOverrides, RunPlan, SharedStart
from tasks.resolve.arm_config import ResolvedConfig, find_unfit_cases, fit_config, resolve_config
from tasks.resolve.arm_trainers import prepare_trainers
from tasks.resolve.blessed import check_baselines
from tasks.resolve.commands import Command, make_command, make_compile
from tasks.resolve.options import ArmsOptions, CompareOptions, PreflightMore, PreflightOptions
from tasks.resolve.trainers.trainer import Trainer
from tasks.store.baselines import is_baseline_place


class Request(Frozen):
    """A user's request: a comparison's name and options."""

    comparison: str
    cases: tuple[str, ...] = ()  # empty: the comparison's own; "all": every case that fits model and target
    target: str | None = None  # None: the comparison's own
    model: str | None = None  # None: the target's own
    repeats: int | None = None  # runs per arm of a case; None: the file's number
    overrides: tuple[str, ...] = ()  # key=value, for both arms
    fresh: str = ""  # a text that gives the runs other identities, so that no finished run is reused
    arms: ArmOverrides = ArmOverrides()  # refs and software of the arms, and --aa
    rules: VerdictRules | None = None  # verdict rules that a nightly's plan stores; None: read the files now
    blessed: str = ""  # file or folder of baselines; their runs replace the first arm's; empty: train both arms

    step: tuple[str, ...] = ()  # the step's functions; empty: the comparison's own

    suffix: ClassVar[str] = ""  # after the arm in a run's name

    def count_repeats(self, comparison: Comparison) -> int:
        """Return the number of runs per arm of a case."""
        return self.repeats or comparison.repeats

    def shares_start(self, comparison: Comparison) -> bool:
        """Return whether the second arm starts with the first arm's state."""
        return comparison.shares_start

    def place(self, target: Target) -> Target:
        """Return where the runs take place."""
        return target

    def topology(self, target: Target) -> str | None:
        """Return the topology that the runs only compile for; None if they train."""
        return None

    def make_command(self, target: Target, trainer: Trainer, config: TrainConfig, arm: str) -> Command:
        """Return the command of a run. Raises ConfigError."""
        return make_command(target, trainer, config, arm=arm)


class FunctionRequest(Request):
    """A request that evaluates the steps of both arms on this machine, and starts no run on the target."""

    def place(self, target: Target) -> Target:
        """Return a target for processors as it is, another one as this machine."""
        return target if target.environment.get("JAX_PLATFORMS") == "cpu" else on_this_machine(target)

    def make_command(self, target: Target, trainer: Trainer, config: TrainConfig, arm: str) -> Command:
        """Return the command of a run here. Raises ConfigError."""
        return make_command(self.place(target), trainer, config, arm=arm)


class CompileRequest(Request):
    """A request that compiles both arms for the target's topology on this machine, and trains nothing."""

    suffix = "-compile"

    def count_repeats(self, comparison: Comparison) -> int:
        """Return 1: equal programs have equal compiles."""
        return 1

    def shares_start(self, comparison: Comparison) -> bool:
        """Return False: a compile has no state."""
        return False

    def place(self, target: Target) -> Target:
        """Return the target on this machine, without its launch settings."""
        return on_this_machine(target)

    def topology(self, target: Target) -> str | None:
        return target.topology

    def make_command(self, target: Target, trainer: Trainer, config: TrainConfig, arm: str) -> Command:
        """Return the command of a compile, which with `fresh` does not use the cache of compiled programs."""
        return make_compile(target, trainer, config, arm=arm, anew=bool(self.fresh))


def on_this_machine(target: Target) -> Target:
    """Return the target on this machine, without its launch settings and devices."""
    here = {"backend": "local", "environment": {}, "pass_on": (), "wrap": (), "launch": {}}
    return target.replace(**here)


def resolve(request: Request, out: Path, *, root: Path = CONFIG_ROOT, cache: Path | None = None) -> list[RunPlan]:
    """Return the plans of a request in the order of their runs: case by case, arms alternating (A B A B).

    With `blessed`, only the second arm has runs. Creates the arms' checkouts and environments in `cache` (None:
    `default_cache`). Raises ConfigError with problems of the input, CheckoutError, SoftwareError, and StoreError for a
    damaged baseline.
    """
    comparison, target, cases = check_request(request, root)
    request = request.replace(step=request.step or comparison.step)
    problems = Problems()
    configs: dict[tuple[str, str], ResolvedConfig] = {}
    names = [arm.name for arm in comparison.arms]
    read = partial(resolve_config, comparison, target, overrides=request.overrides, model=request.model, root=root)
    for case, arm in product(cases, names):
        if (config := problems.attempt(partial(read, case=case, arm=arm))) is not None:
            configs[case, arm] = config
    problems.raise_any()
    trainers = prepare_trainers(comparison, request.arms, cache or default_cache())
    for case, arm in configs:
        if (own := trainers[arm].config_folder) is not None:
            again = partial(read, case=case, arm=arm, own=(trainers[arm].ref or "", own))
            configs[case, arm] = problems.attempt(again) or configs[case, arm]
    problems.raise_any()
    configs = {
        (case, arm): fit_config(config, trainers[arm], arm, problems, root=root)
        for (case, arm), config in configs.items()
    }
    problems.raise_any()
    repeats = request.count_repeats(comparison)
    runs = list(product(cases, range(repeats), names[1:] if request.blessed else names))

    def command_of(case: str, arm: str) -> Command:
        return request.make_command(target, trainers[arm], configs[case, arm].config, arm)

    commands = {(case, arm): problems.attempt(partial(command_of, case, arm)) for case, _, arm in runs}
    rules = request.rules or problems.attempt(partial(load_verdict_rules, comparison.name, target.name, root=root))
    problems.raise_any()
    plans: list[RunPlan] = []
    shared = request.shares_start(comparison)
    if shared and request.blessed:
        reason = "its second arm starts with the first arm's state, which a baseline does not hold"
        raise ConfigError([f"{comparison.name}: {reason}; set `start: own` in the comparison and bless it again"])
    for case, repeat, arm in runs:
        command = commands[case, arm]
        assert command is not None  # else `raise_any` has raised
        first = arm == names[0]  # in `runs`, the second arm's run directly follows the first arm's of the same repeat
        start = SharedStart(taken_from=None if first else plans[-1].run_name) if shared else None
        make = partial(plan_run, request, target, configs[case, arm], command, out=out, rules=rules, start=start)
        plan = make(case=case, arm=arm, repeat=repeat)
        plans.append(plan.replace(against=request.blessed))
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
    """Return the plan of one run. The run's identity depends on neither its folder nor its time limit."""
    trainer, target = command.trainer, request.place(target)
    config = {key: value for key, value in resolved.config.model_dump().items() if key in resolved.values}
    facts: dict[str, Any] = {
        "config": {key: value for key, value in config.items() if key not in PLACE_KEYS},
        "trainer": trainer.name,
        "target": target.model_dump(include={"name", "backend", "devices", "environment"}),
        "versions": trainer.versions,
        "repeat": repeat,
        "fresh": request.fresh,
    }
    if trainer.tree:  # equal files are not trained twice, whether they are committed or not
        facts["tree"] = trainer.tree
    if trainer.software:
        facts["software"] = trainer.software
    if start is not None and target.shares_files:  # runs without common files cannot share their start
        facts["start"] = start.taken_from or "kept"
    identity = hash_identity(facts | command.facts)
    run_name = name_run_folder(case, f"{arm}{request.suffix}", repeat, identity)
    directory = out.absolute() / "runs" / run_name  # absolute, because the trainer starts in another folder
    place = {"run_name": run_name, "base_output_directory": str(directory.parent)}
    origins = {key: value.origin for key, value in resolved.values.items()}
    invocation = command.invoke(directory)
    same = ("commit", "dirty", "versions", "ref", "tree", "version", "repository", "commits", "code", "software")
    return RunPlan(
        **{name: getattr(trainer, name) for name in same},
        trainer=trainer.name,
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
        run_name=run_name,
        directory=str(directory),
        identity=identity,
        checkout=trainer.folder,
        aa=request.arms.aa,
        rules=rules,
        launch=command.settings,
        files=invocation.files,
        compiles_for=request.topology(target),
        start=start,
        start_folder=trainer.start_folder,
        step=request.step,
    )


def check_request(request: Request, root: Path = CONFIG_ROOT) -> tuple[Comparison, Target, list[str]]:
    """Return the request's comparison, target and cases, each case once. Raises ConfigError with all problems."""
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
    if request.repeats is not None and not 1 <= request.repeats <= MAX_REPEATS:
        problems.lines.append(f"--repeats must be 1 to {MAX_REPEATS}, got {request.repeats}")
    if problems.lines:  # without other problems, `merge_layers` reports unknown keys
        problems.lines += unknown_keys(words or {})
    problems.raise_any()
    assert comparison is not None  # else `raise_any` has raised
    assert target is not None
    names: Sequence[str] = wanted
    if "all" in wanted:
        every = list_names("cases", root=root)
        unfit = find_unfit_cases(every, target, model=request.model, root=root)
        names = [case for case in every if case not in unfit]
    return comparison, target, list(dict.fromkeys(names))


def request_comparison(options: CompareOptions) -> Request:
    """Return the request that trains both arms, or only the second arm if `baseline` names blessed runs.

    With `--only function` nothing is trained, and the target's cluster, images and devices are not needed.
    """
    blessed = options.baseline if is_baseline_place(options.baseline) else ""
    request = _request(options.replace(baseline="") if blessed else options, options.more)
    arms = request.arms.replace(aa=options.more.aa)
    request = request.replace(repeats=options.more.repeats, blessed=blessed, arms=arms, step=options.more.step)
    return FunctionRequest(**dict(request)) if options.read_only() == {"function"} else request


def with_seed(request: Request, seed: int) -> Request:
    """Return the request of one run of each arm whose first weights, dropout and order of data follow from `seed`."""
    seeds = (f"init_weights_seed={seed}", f"data_shuffle_seed={seed}")
    return request.replace(repeats=1, overrides=(*request.overrides, *seeds))


def request_compiles(options: PreflightOptions) -> CompileRequest:
    """Return the request that compiles both arms for the target's topology."""
    return CompileRequest(**dict(_request(options, options.more)))


def _request(options: ArmsOptions, more: PreflightMore) -> Request:
    """Return the request with the common options. With --fresh, each call gives its runs new identities."""
    return Request(
        comparison=options.comparison,
        cases=options.cases,
        target=options.target or None,
        model=more.model or None,
        overrides=more.overrides,
        fresh=uuid4().hex if more.fresh else "",
        arms=ArmOverrides(
            baseline=options.baseline or None,
            branch=options.branch or None,
            repository=options.repository or None,
            software=more.software,
        ),
    )


NAME_LENGTH = 64  # characters


def hash_identity(facts: Mapping[str, Any]) -> str:
    """Return the identity of a run, or of another object with these facts: 16 hex digits, the same on every machine."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def name_run_folder(case: str, arm: str, repeat: int, identity: str) -> str:
    """Return the run's folder name, CASE-ARM-rREPEAT-IDENTITY, with the first 10 digits of the identity.

    If the name would be longer than NAME_LENGTH, a hash replaces the end of CASE-ARM.
    """
    words, end = f"{case}-{arm}", f"-r{repeat}-{identity[:10]}"
    room = NAME_LENGTH - len(end)
    if len(words) > room:
        words = f"{words[: room - 9]}-{hashlib.sha256(words.encode()).hexdigest()[:8]}"
    return words + end
