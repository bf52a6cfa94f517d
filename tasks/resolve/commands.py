"""Turns a target and an arm's trainer into the command of a run, with its facts for the run's identity."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from configs.backend_settings import ImageSettings, LogSettings
from configs.comparison import Target
from configs.custom_trainer import CommandTemplate
from configs.errors import ConfigError
from configs.installed import PLUGINS
from configs.launch import BACKENDS, settings_model
from configs.schema import Frozen, TrainConfig
from configs.topologies import Topology, find_topology
from tasks.records import RunFiles
from tasks.resolve.replay.stored_log import StoredLog, find_log
from tasks.resolve.trainers.command import CustomCommand
from tasks.resolve.trainers.compile import CompileCommand, plan_compile
from tasks.resolve.trainers.maxtext import MaxText, plan_maxtext
from tasks.resolve.trainers.trainer_source import TrainerSource

CONFIG_IN_POD = "/tmp/maxview/config.yml"  # where a pod's command unpacks the run's config
PYTHON_IN_POD = "python"
# The fields of a trainer that are unknown until its run reports them.
UNKNOWN: Mapping[str, Any] = {"commit": None, "dirty": False, "versions": {}, "folder": None}
NOWHERE = Path("/nowhere/run")  # a dummy folder, for validation only
PROGRAMS = "programs"  # folder of a store: the cache of compiled programs
IMAGE = "image "  # prefix of an image in `TrainerSource.software`


class Command(Protocol):
    """The command of one run on one kind of target."""

    @property
    def facts(self) -> dict[str, Any]:
        """The facts beyond config, trainer and target that decide the run's outcome: part of its identity."""
        ...

    @property
    def checkout(self) -> TrainerSource:
        """The trainer, as far as it is known before the run."""
        ...

    @property
    def settings(self) -> ImageSettings | None:
        """The settings of a backend that runs images; None for a run on this machine."""
        ...

    def argv(self, directory: Path) -> tuple[str, ...]:
        """Return the argument list for a run in this folder."""
        ...

    def environment(self, directory: Path) -> dict[str, str]:
        """Return the variables that the trainer needs; the target's settings win over them."""
        ...

    def files(self, directory: Path) -> RunFiles:
        """Return where the run writes its files."""
        ...


class Plain(Frozen):
    """A command without variables of its own, whose files lie where our trainer writes them."""

    checkout: TrainerSource
    facts: dict[str, Any] = {}
    settings: ImageSettings | None = None

    def environment(self, directory: Path) -> dict[str, str]:
        """See Command."""
        return {}

    def files(self, directory: Path) -> RunFiles:
        """See Command."""
        return RunFiles()


class TrainHere(Plain):
    """The trainer of an arm's checkout, on this machine."""

    def argv(self, directory: Path) -> tuple[str, ...]:
        """See Command."""
        return (self.checkout.python, "-m", "model.train", str(directory / "config.yml"))


class TrainMaxText(Plain):
    """An arm's MaxText, on this machine."""

    maxtext: MaxText
    config: TrainConfig

    def environment(self, directory: Path) -> dict[str, str]:
        """See Command."""
        return plan_maxtext(self.config, self.maxtext, directory).environment

    def argv(self, directory: Path) -> tuple[str, ...]:
        """See Command. Raises ConfigError with everything that this MaxText cannot do."""
        return plan_maxtext(self.config, self.maxtext, directory).argv


class TrainInPod(Plain):
    """The trainer that an image holds, in a pod."""

    def argv(self, directory: Path) -> tuple[str, ...]:
        """See Command."""
        return (PYTHON_IN_POD, "-m", "model.train", CONFIG_IN_POD)


class TrainMaxTextInPod(TrainInPod):
    """The MaxText that an image holds, in a pod. Its keys are read from the same version on this machine."""

    maxtext: MaxText
    config: TrainConfig

    def argv(self, directory: Path) -> tuple[str, ...]:
        """See Command. Raises ConfigError with everything that this MaxText cannot do."""
        return plan_maxtext(self.config, self.maxtext, directory, in_pod=True).argv


class RunProgram(Plain):
    """A custom program, on this machine or in a pod."""

    program: CustomCommand
    config: TrainConfig

    def filled(self, directory: Path) -> CommandTemplate:
        """Return the program's template with the run's values filled in."""
        return self.program.fill(self.config, directory, in_pod=self.settings is not None)

    def argv(self, directory: Path) -> tuple[str, ...]:
        """See Command."""
        return self.filled(directory).argv

    def environment(self, directory: Path) -> dict[str, str]:
        """See Command."""
        return self.filled(directory).environment

    def files(self, directory: Path) -> RunFiles:
        """See Command."""
        filled = self.filled(directory)
        return RunFiles(checkpoints=filled.checkpoints, metrics=filled.metrics, resume=filled.resume)


class CompileHere(Plain):
    """The ahead-of-time compile of an arm's step for a TPU slice, on this machine."""

    topology: Topology
    config: TrainConfig
    anew: bool  # ignore the store's cache of compiled programs

    def _plan(self, directory: Path) -> CompileCommand:
        programs = None if self.anew else directory.parent.parent / PROGRAMS
        return plan_compile(self.config, self.checkout, self.topology, directory, programs)

    def argv(self, directory: Path) -> tuple[str, ...]:
        """See Command."""
        return self._plan(directory).argv

    def environment(self, directory: Path) -> dict[str, str]:
        """See Command."""
        return self._plan(directory).environment

    def files(self, directory: Path) -> RunFiles:
        """See Command."""
        return RunFiles(checkpoints=None)


class PlayLog(Plain):
    """A player of a stored log, on this machine. The trainer is known from the log only."""

    log: StoredLog
    speed: float

    def argv(self, directory: Path) -> tuple[str, ...]:
        """See Command."""
        return self.log.argv(sys.executable, directory, self.speed)

    def files(self, directory: Path) -> RunFiles:
        """See Command. Without the stored run's folder the player writes no checkpoints."""
        return RunFiles() if self.log.source else RunFiles(checkpoints=None)


def make_command(
    target: Target,
    checkout: TrainerSource,
    config: TrainConfig,
    *,
    case: str,
    arm: str,
    repeat: int,
    environ: Mapping[str, str] = os.environ,
) -> Command:
    """Return the command of a run. Raises ConfigError, also for values that the arm's MaxText does not support."""
    settings = target.launch_settings(environ)
    image = next((word.removeprefix(IMAGE) for word in checkout.software if word.startswith(IMAGE)), None)
    if isinstance(settings, LogSettings):
        log = find_log(settings, case=case, arm=arm, repeat=repeat, where=f"configs/targets/{target.name}.yml")
        facts = {"log": log.digest, "exit_code": log.exit_code, "checkpoints": log.source}
        return PlayLog(log=log, speed=settings.speed, checkout=checkout.model_copy(update=UNKNOWN), facts=facts)
    if isinstance(settings, ImageSettings):
        if image is None and (checkout.folder or checkout.software):
            raise ConfigError([f"{target.name} runs images: give the arm '{arm}' an `image:` that holds its trainer"])
        settings = settings.model_copy(update={"image": image} if image else {})
        held = checkout.model_copy(update=UNKNOWN)
        facts = settings.facts
        if checkout.command is not None:
            return _make_program(target, held, checkout.command, config, facts=facts, settings=settings)
        if checkout.maxtext is None:
            return TrainInPod(checkout=held, facts=facts, settings=settings)
        return _checked(
            TrainMaxTextInPod(checkout=held, facts=facts, settings=settings, maxtext=checkout.maxtext, config=config)
        )
    if image is not None:
        backends = " or ".join(name for name in BACKENDS if issubclass(settings_model(name), ImageSettings))
        where = f"take the arm '{arm}' to a target whose backend is {backends}"
        raise ConfigError([f"{target.name} runs no images: {where}"])
    if checkout.command is not None:
        return _make_program(target, checkout, checkout.command, config)
    _check_plugin(target, checkout, arm)
    if checkout.maxtext is None:
        return TrainHere(checkout=checkout)
    return _checked(TrainMaxText(checkout=checkout, maxtext=checkout.maxtext, config=config))


def make_compile(
    target: Target, checkout: TrainerSource, config: TrainConfig, *, arm: str, anew: bool = False
) -> CompileHere:
    """Return the command that compiles an arm's step for the target's slice. Raises ConfigError."""
    if target.topology is None:
        raise ConfigError([f"{target.name} names no topology: only programs for TPU slices are compiled ahead of time"])
    if any(word.startswith(IMAGE) for word in checkout.software):
        raise ConfigError([f"the arm '{arm}' runs an image: its trainer cannot be compiled here"])
    topology = find_topology(target.topology)
    facts = {"compile": topology.model_dump(mode="json")}
    command = CompileHere(checkout=checkout, topology=topology, config=config, facts=facts, anew=anew)
    command.argv(NOWHERE)
    return command


def _make_program(
    target: Target,
    checkout: TrainerSource,
    program: CustomCommand,
    config: TrainConfig,
    *,
    facts: Mapping[str, Any] = MappingProxyType({}),
    settings: ImageSettings | None = None,
) -> RunProgram:
    both = sorted(program.template.environment.keys() & target.environment.keys())
    if both:
        place = f"configs/targets/{target.name}.yml"
        raise ConfigError([f"command.environment sets {', '.join(both)}, and so does {place}: keep one of them"])
    facts = {**facts, "command": program.template.model_dump(mode="json", exclude={"folder"})}
    return RunProgram(checkout=checkout, program=program, config=config, facts=facts, settings=settings)


def _check_plugin(target: Target, checkout: TrainerSource, arm: str) -> None:
    """Check that the JAX plugin for the target's devices is installed. Raises ConfigError if it is missing."""
    kind = target.environment.get("JAX_PLATFORMS", "")
    plugins = PLUGINS.get(kind)
    if plugins is None or checkout.versions.keys() & set(plugins.values()):
        return
    start = f"{target.name}: JAX for it ({' or '.join(plugins.values())}) is not installed"
    if checkout.python == sys.executable:
        raise ConfigError([f"{start}: uv sync --extra {kind}"])
    extras = " or ".join(f"jax[{extra}]" for extra in plugins)
    raise ConfigError([f"{start} for '{arm}': {checkout.python} needs {extras}"])


def _checked[C: (TrainMaxText, TrainMaxTextInPod)](command: C) -> C:
    """Return the command after building its arguments once, which raises ConfigError if that is impossible."""
    command.argv(NOWHERE)
    return command
