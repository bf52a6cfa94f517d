"""Builds a run's command from its target and its arm's trainer, with the facts that enter the run's identity."""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from configs.backend_settings import ImageSettings, LogSettings
from configs.comparison import Target
from configs.errors import ConfigError
from configs.installed import PLUGINS
from configs.launch import BACKENDS, settings_model
from configs.schema import TrainConfig
from configs.topologies import find_topology
from tasks.resolve.replay.stored_log import find_log
from tasks.resolve.trainers.compile import plan_compile
from tasks.resolve.trainers.custom_command import CustomCommand
from tasks.resolve.trainers.invocation import Invocation
from tasks.resolve.trainers.maxtext import PYTHON_IN_POD, plan_maxtext
from tasks.resolve.trainers.trainer_source import TrainerSource

CONFIG_IN_POD = "/tmp/maxview/config.yml"  # path in a pod to which the pod's command writes the run's config
# TrainerSource fields that are unknown until the run reports them, with their placeholder values.
UNKNOWN: Mapping[str, Any] = {"commit": None, "dirty": False, "versions": {}, "folder": None}
NOWHERE = Path("/nowhere/run")  # dummy run folder, to build a command only for validation
PROGRAMS = "programs"  # folder inside a store: the cache of compiled programs
IMAGE = "image "  # `TrainerSource.software` lists an image as this prefix and the image's name


@dataclass(frozen=True)
class Command:
    """How one run is started on its target. Its construction checks that the trainer supports the config."""

    checkout: TrainerSource  # the trainer, with UNKNOWN values if it is known only after the run
    invoke: Callable[[Path], Invocation]  # run folder → arguments, variables and output files
    facts: dict[str, Any] = field(default_factory=dict)  # enter the identity with config, trainer and target
    settings: ImageSettings | None = None  # the backend's, with the image to run; None for a run on this machine

    def __post_init__(self) -> None:
        self.invoke(NOWHERE)  # raises ConfigError with every config value that the trainer does not support


def make_command(
    target: Target,
    checkout: TrainerSource,
    config: TrainConfig,
    *,
    case: str,
    arm: str,
    repeat: int,
) -> Command:
    """Return the command of a run. Raises ConfigError, also for values that the arm's MaxText does not support."""
    settings = target.launch_settings(os.environ)
    image = next((word.removeprefix(IMAGE) for word in checkout.software if word.startswith(IMAGE)), None)
    if isinstance(settings, LogSettings):
        log = find_log(settings, case=case, arm=arm, repeat=repeat, where=f"configs/targets/{target.name}.yml")
        facts = {"log": log.digest, "exit_code": log.exit_code, "checkpoints": log.source}
        # the log says which trainer ran
        return Command(checkout.model_copy(update=UNKNOWN), partial(log.play, speed=settings.speed), facts)
    if not isinstance(settings, ImageSettings):
        if image is not None:
            backends = " or ".join(name for name in BACKENDS if issubclass(settings_model(name), ImageSettings))
            where = f"take the arm '{arm}' to a target whose backend is {backends}"
            raise ConfigError([f"{target.name} runs no images: {where}"])
        if checkout.command is None:
            _check_plugin(target, checkout, arm)
        return Command(checkout, *_train(target, checkout, config, in_pod=False))
    if image is None and (checkout.folder or checkout.software):
        raise ConfigError([f"{target.name} runs images: give the arm '{arm}' an `image:` that holds its trainer"])
    settings = settings.model_copy(update={"image": image} if image else {})
    held = checkout.model_copy(update=UNKNOWN)
    invoke, facts = _train(target, held, config, in_pod=True)
    return Command(held, invoke, settings.facts | facts, settings)


def make_compile(
    target: Target, checkout: TrainerSource, config: TrainConfig, *, arm: str, anew: bool = False
) -> Command:
    """Return the command that compiles an arm's training step on this machine for the target's topology.

    anew: do not use the store's cache of compiled programs. Raises ConfigError.
    """
    if target.topology is None:
        raise ConfigError([f"{target.name} names no topology: only programs for TPU slices are compiled ahead of time"])
    if any(word.startswith(IMAGE) for word in checkout.software):
        raise ConfigError([f"the arm '{arm}' runs an image: its trainer cannot be compiled here"])
    topology = find_topology(target.topology)

    def invoke(directory: Path) -> Invocation:
        programs = None if anew else directory.parent.parent / PROGRAMS
        return plan_compile(config, checkout, topology, directory, programs)

    return Command(checkout, invoke, {"compile": topology.model_dump(mode="json")})


def _train(
    target: Target, checkout: TrainerSource, config: TrainConfig, *, in_pod: bool
) -> tuple[Callable[[Path], Invocation], dict[str, Any]]:
    """Return a function from the run folder to the trainer's invocation, and a custom command's facts (else empty)."""
    if (program := checkout.command) is not None:
        _check_variables(target, program)
        facts = {"command": program.template.model_dump(mode="json", exclude={"folder"})}
        return partial(program.fill, config, in_pod=in_pod), facts
    if checkout.maxtext is not None:  # the keys of a pod's MaxText are read from the same version here
        return partial(plan_maxtext, config, checkout.maxtext, in_pod=in_pod), {}
    if in_pod:
        return lambda _: Invocation(argv=(PYTHON_IN_POD, "-m", "model.train", CONFIG_IN_POD)), {}
    here = (checkout.python, "-m", "model.train")
    return lambda directory: Invocation(argv=(*here, str(directory / "config.yml"))), {}


def _check_variables(target: Target, program: CustomCommand) -> None:
    both = sorted(program.template.environment.keys() & target.environment.keys())
    if both:
        place = f"configs/targets/{target.name}.yml"
        raise ConfigError([f"command.environment sets {', '.join(both)}, and so does {place}: keep one of them"])


def _check_plugin(target: Target, checkout: TrainerSource, arm: str) -> None:
    """Raise ConfigError if the trainer's environment lacks the JAX plugin for the target's devices."""
    kind = target.environment.get("JAX_PLATFORMS", "")
    plugins = PLUGINS.get(kind)
    if plugins is None or checkout.versions.keys() & set(plugins.values()):
        return
    start = f"{target.name}: JAX for it ({' or '.join(plugins.values())}) is not installed"
    if checkout.python == sys.executable:
        raise ConfigError([f"{start}: uv sync --extra {kind}"])
    extras = " or ".join(f"jax[{extra}]" for extra in plugins)
    raise ConfigError([f"{start} for '{arm}': {checkout.python} needs {extras}"])
