"""Builds a run's command from its target and its arm's trainer, with the facts that enter the run's identity.

An arm is one of the two compared versions. A run trains, or only compiles the training step.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from configs.backends import BACKENDS, settings_model
from configs.backends.settings import ImageSettings
from configs.comparison import Target
from configs.errors import ConfigError
from configs.schema import TrainConfig
from configs.topologies import find_topology
from tasks.records.plan import Invocation
from tasks.resolve.trainers.trainer import Trainer

# Fields of a trainer that are unknown until the run reports them, with their placeholder values.
UNKNOWN: Mapping[str, Any] = {"commit": None, "dirty": False, "versions": {}, "folder": None}
NOWHERE = Path("/nowhere/run")  # dummy run folder, to build a command only for validation
PROGRAMS = "programs"  # folder inside a store: the cache of compiled programs
IMAGE = "image "  # prefix of an image's name in `Trainer.software`


@dataclass(frozen=True)
class Command:
    """How one run is started on its target. The constructor checks that the trainer supports the config."""

    trainer: Trainer  # with the placeholders of UNKNOWN if only the run's log will show the true values
    invoke: Callable[[Path], Invocation]  # run folder → arguments, variables and output files
    facts: dict[str, Any] = field(default_factory=dict)  # enter the run's identity, besides config, trainer and target
    settings: ImageSettings | None = None  # the backend's, with the image to run; None for a run on this machine

    def __post_init__(self) -> None:
        self.invoke(NOWHERE)  # raises ConfigError with every config value that the trainer does not support


def make_command(target: Target, trainer: Trainer, config: TrainConfig, *, arm: str) -> Command:
    """Return the command of a run. Raises ConfigError, e.g. for values that the arm's MaxText does not support."""
    settings = target.launch_settings(os.environ)
    image = next((word.removeprefix(IMAGE) for word in trainer.software if word.startswith(IMAGE)), None)
    on_cluster = settings if isinstance(settings, ImageSettings) else None
    if on_cluster is None and image is not None:
        backends = " or ".join(name for name in BACKENDS if issubclass(settings_model(name), ImageSettings))
        where = f"take the arm '{arm}' to a target whose backend is {backends}"
        raise ConfigError([f"{target.name} runs no images: {where}"])
    in_pod = on_cluster is not None and (image or on_cluster.image) is not None
    if in_pod and image is None and (trainer.folder or trainer.software):
        raise ConfigError([f"{target.name} runs images: give the arm '{arm}' an `image:` that holds its trainer"])
    if on_cluster is not None and image is not None:
        on_cluster = on_cluster.replace(image=image)
    trainer.check_target(target, arm, in_pod=in_pod)
    alone = in_pod or on_cluster is None or on_cluster.alone
    return Command(
        trainer.replace(**UNKNOWN) if in_pod else trainer,
        partial(trainer.invoke, config, in_pod=in_pod, alone=alone),
        (on_cluster.facts if on_cluster else {}) | trainer.facts,
        on_cluster,
    )


def make_compile(target: Target, trainer: Trainer, config: TrainConfig, *, arm: str, anew: bool = False) -> Command:
    """Return the command that compiles an arm's training step on this machine for the target's topology.

    anew: do not use the store's cache of compiled programs. Raises ConfigError.
    """
    if target.topology is None:
        raise ConfigError([f"{target.name} names no topology: only programs for TPU slices are compiled ahead of time"])
    if any(word.startswith(IMAGE) for word in trainer.software):
        raise ConfigError([f"the arm '{arm}' runs an image: its trainer cannot be compiled here"])
    topology = find_topology(target.topology)

    def invoke(directory: Path) -> Invocation:
        programs = None if anew else directory.parent.parent / PROGRAMS
        return trainer.invoke_compile(config, topology, directory, programs)

    return Command(trainer, invoke, {"compile": topology.model_dump(mode="json")})
