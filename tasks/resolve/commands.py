"""Builds a run's command from its target and its arm's trainer, with the facts that enter the run's identity.

An arm is one of the two compared versions. A run trains, or only compiles the training step.
"""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from configs.backends import BACKENDS, ImageSettings, settings_model
from configs.comparison import Target
from configs.errors import ConfigError
from configs.installed import PLUGINS
from configs.schema import TrainConfig
from configs.topologies import Topology, find_topology
from tasks.records import Invocation, RunFiles
from tasks.resolve.trainers.maxtext import PYTHON_IN_POD, plan_maxtext, translate, write_words
from tasks.resolve.trainers.trainer_source import TrainerSource

CONFIG = "config.yml"  # a run's config, in the run's folder
CONFIG_IN_POD = "/tmp/maxview/config.yml"  # a run's config, in a pod; the pod's command writes this file
# TrainerSource fields that are unknown until the run reports them, with their placeholder values.
UNKNOWN: Mapping[str, Any] = {"commit": None, "dirty": False, "versions": {}, "folder": None}
NOWHERE = Path("/nowhere/run")  # dummy run folder, to build a command only for validation
PROGRAMS = "programs"  # folder inside a store: the cache of compiled programs
IMAGE = "image "  # prefix of an image's name in `TrainerSource.software`
# The Python of MaxText's environment runs this file of maxview's trainer.
COMPILE_RECORDER = Path(__file__).parents[2] / "model" / "compile_record.py"
# For machines without a TPU: several processes may load libtpu at once, and none queries the TPU metadata server.
COMPILE_ENVIRONMENT = {"JAX_PLATFORMS": "cpu", "TPU_SKIP_MDS_QUERY": "1", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}


@dataclass(frozen=True)
class Command:
    """How one run is started on its target. The constructor checks that the trainer supports the config."""

    trainer: TrainerSource  # with the placeholders of UNKNOWN if only the run's log will show the true values
    invoke: Callable[[Path], Invocation]  # run folder → arguments, variables and output files
    facts: dict[str, Any] = field(default_factory=dict)  # enter the run's identity, besides config, trainer and target
    settings: ImageSettings | None = None  # the backend's, with the image to run; None for a run on this machine

    def __post_init__(self) -> None:
        self.invoke(NOWHERE)  # raises ConfigError with every config value that the trainer does not support


def make_command(target: Target, trainer: TrainerSource, config: TrainConfig, *, arm: str) -> Command:
    """Return the command of a run. Raises ConfigError, e.g. for values that the arm's MaxText does not support."""
    settings = target.launch_settings(os.environ)
    image = next((word.removeprefix(IMAGE) for word in trainer.software if word.startswith(IMAGE)), None)
    on_cluster = settings if isinstance(settings, ImageSettings) else None
    if on_cluster is None and image is not None:
        backends = " or ".join(name for name in BACKENDS if issubclass(settings_model(name), ImageSettings))
        where = f"take the arm '{arm}' to a target whose backend is {backends}"
        raise ConfigError([f"{target.name} runs no images: {where}"])
    if on_cluster is None or (image or on_cluster.image) is None:
        if trainer.command is None:
            _check_plugin(target, trainer, arm)
        alone, facts = (True, {}) if on_cluster is None else (on_cluster.alone, on_cluster.facts)
        invoke, more = _invoke_trainer(target, trainer, config, in_pod=False, alone=alone)
        return Command(trainer, invoke, facts | more, on_cluster)
    if image is None and (trainer.folder or trainer.software):
        raise ConfigError([f"{target.name} runs images: give the arm '{arm}' an `image:` that holds its trainer"])
    on_cluster = on_cluster.model_copy(update={"image": image} if image else {})
    invoke, facts = _invoke_trainer(target, trainer, config, in_pod=True)
    return Command(trainer.model_copy(update=UNKNOWN), invoke, on_cluster.facts | facts, on_cluster)


def _check_plugin(target: Target, trainer: TrainerSource, arm: str) -> None:
    """Raise ConfigError if the trainer's environment lacks the JAX plugin for the target's devices."""
    kind = target.environment.get("JAX_PLATFORMS", "")
    plugins = PLUGINS.get(kind)
    if plugins is None or trainer.versions.keys() & set(plugins.values()):
        return
    start = f"{target.name}: JAX for it ({' or '.join(plugins.values())}) is not installed"
    if trainer.python == sys.executable:
        raise ConfigError([f"{start}: uv sync --extra {kind}"])
    extras = " or ".join(f"jax[{extra}]" for extra in plugins)
    raise ConfigError([f"{start} for '{arm}': {trainer.python} needs {extras}"])


def _invoke_trainer(
    target: Target, trainer: TrainerSource, config: TrainConfig, *, in_pod: bool, alone: bool = True
) -> tuple[Callable[[Path], Invocation], dict[str, Any]]:
    """Return a function that makes the invocation for a run's folder, and the facts of a custom command (else empty).

    Raises ConfigError if a custom command and the target set the same variable.
    """
    if (program := trainer.command) is not None:
        twice = sorted(program.template.environment.keys() & target.environment.keys())
        if twice:
            place = f"configs/targets/{target.name}.yml"
            raise ConfigError([f"command.environment sets {', '.join(twice)}, and so does {place}: keep one of them"])
        facts = {"command": program.template.model_dump(mode="json", exclude={"folder"})}
        return partial(program.fill, config, in_pod=in_pod), facts
    # The keys of an image's MaxText are read from `trainer.maxtext`, the same version on this machine.
    if trainer.maxtext is not None:
        return partial(plan_maxtext, config, trainer.maxtext, in_pod=in_pod, alone=alone), {}
    if in_pod:
        return lambda _: Invocation(argv=(PYTHON_IN_POD, "-m", "model.train", CONFIG_IN_POD)), {}
    return lambda directory: Invocation(argv=(trainer.python, "-m", "model.train", str(directory / CONFIG))), {}


def make_compile(
    target: Target, trainer: TrainerSource, config: TrainConfig, *, arm: str, anew: bool = False
) -> Command:
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
        return plan_compile(config, trainer, topology, directory, programs)

    return Command(trainer, invoke, {"compile": topology.model_dump(mode="json")})


def plan_compile(
    config: TrainConfig, trainer: TrainerSource, topology: Topology, directory: Path, programs: Path | None = None
) -> Invocation:
    """Return the invocation that compiles an arm's step and writes the results, such as `compile.json`, to `directory`.

    Maxview's trainer reads `config.yml` there, and caches compiled programs in the folder `programs` (None: no cache).
    Raises ConfigError for a custom command, and for config values that the arm's MaxText does not support.
    """
    if trainer.command is not None:
        raise ConfigError(["a custom command cannot be compiled ahead of time: only maxview's and MaxText's can"])
    if (maxtext := trainer.maxtext) is not None:
        words = translate(config, maxtext, directory, metrics_file="", alone=True)
        words |= {"compile_topology": name_in_maxtext(topology), "compile_topology_num_slices": "1"}
        argv: tuple[str, ...] = (
            maxtext.python, "-P", str(COMPILE_RECORDER), "--out", str(directory), "--topology", topology.name,
            "--devices", str(topology.devices), "--hbm-bytes", str(topology.hbm_bytes),
            f"{maxtext.module}_compile", maxtext.base_config, *write_words(words),
        )  # fmt: skip
        own = {"DECOUPLE_GCLOUD": "TRUE"}  # else MaxText retries Google Cloud's metadata server for minutes
    else:
        argv = (trainer.python, "-m", "model.compile", str(directory / CONFIG))
        argv += ("--out", str(directory), "--topology", topology.name)
        # passed as a variable, because the trainer at an older commit would reject an unknown option
        own = {"MAXVIEW_PROGRAMS": str(programs)} if programs else {}
    return Invocation(argv=argv, environment=COMPILE_ENVIRONMENT | own, files=RunFiles(checkpoints=None))


def name_in_maxtext(topology: Topology) -> str:
    """Return MaxText's name of a slice, such as "v6e-32": the generation and the number of devices.

    For v5p, the number counts cores, two per device.
    """
    generation = topology.name.partition(":")[0]
    if generation == "v5p":
        return f"v5p-{2 * topology.devices}"
    return f"{'tpu7x' if generation == 'v7x' else generation}-{topology.devices}"
