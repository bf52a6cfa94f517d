"""Turns a target and an arm's trainer into the command of a run, and what of it belongs to the run's identity."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from configs.comparison import Target
from configs.errors import ConfigError
from configs.launch import Replay, Xpk
from configs.schema import Frozen, TrainConfig
from tasks.launch.replay import StoredLog, find_log
from tasks.resolve.identify import Checkout
from tasks.trainers.maxtext import MaxText, plan_maxtext

CONFIG_IN_POD = "/tmp/maxview/config.yml"  # where a pod's command unpacks the run's config
PYTHON_IN_POD = "python"
# what the trainer is, only the run itself can say
UNKNOWN: Mapping[str, Any] = {"commit": None, "dirty": False, "versions": {}, "folder": None}
IMAGE = "image "  # how a checkout's software names one


class Command(Protocol):
    """The command of one run on one kind of target."""

    @property
    def facts(self) -> dict[str, Any]:
        """What decides the run's outcome apart from config, trainer and target: part of its identity."""
        ...

    @property
    def checkout(self) -> Checkout:
        """What is known of the trainer before it runs."""
        ...

    @property
    def environment(self) -> dict[str, str]:
        """What the trainer itself needs to be set; what the target sets wins."""
        ...

    def argv(self, directory: Path) -> tuple[str, ...]:
        """The words of the command, for a run in this folder."""
        ...


class TrainHere(Frozen):
    """The trainer of an arm's checkout, on this machine."""

    checkout: Checkout
    facts: dict[str, Any] = {}
    environment: dict[str, str] = {}

    def argv(self, directory: Path) -> tuple[str, ...]:
        """See Command."""
        return (self.checkout.python, "-m", "model.train", str(directory / "config.yml"))


class TrainMaxText(Frozen):
    """An arm's MaxText, on this machine."""

    checkout: Checkout
    maxtext: MaxText
    config: TrainConfig
    facts: dict[str, Any] = {}

    @property
    def environment(self) -> dict[str, str]:
        """See Command."""
        return plan_maxtext(self.config, self.maxtext, Path()).environment

    def argv(self, directory: Path) -> tuple[str, ...]:
        """See Command. Raises ConfigError with everything that this MaxText cannot do."""
        return plan_maxtext(self.config, self.maxtext, directory).argv


class TrainInPod(Frozen):
    """The trainer that an image holds, in a pod."""

    checkout: Checkout
    settings: Xpk
    environment: dict[str, str] = {}

    @property
    def facts(self) -> dict[str, Any]:
        """See Command."""
        return self.settings.model_dump(include={"image", "tpu_type", "num_slices"})

    def argv(self, directory: Path) -> tuple[str, ...]:
        """See Command."""
        return (PYTHON_IN_POD, "-m", "model.train", CONFIG_IN_POD)


class TrainMaxTextInPod(TrainInPod):
    """The MaxText that an image holds, in a pod. What it can do is read from one of the same version that is here."""

    maxtext: MaxText
    config: TrainConfig

    def argv(self, directory: Path) -> tuple[str, ...]:
        """See Command. Raises ConfigError with everything that this MaxText cannot do."""
        return plan_maxtext(self.config, self.maxtext, directory, in_pod=True).argv


class PlayLog(Frozen):
    """A stored log, on this machine. What ran then, only the log knows."""

    log: StoredLog
    speed: float
    checkout: Checkout
    environment: dict[str, str] = {}

    @property
    def facts(self) -> dict[str, Any]:
        """See Command."""
        return {"log": self.log.digest, "exit_code": self.log.exit_code, "checkpoints": self.log.source}

    def argv(self, directory: Path) -> tuple[str, ...]:
        """See Command."""
        return self.log.argv(sys.executable, directory, self.speed)


def make_command(
    target: Target,
    checkout: Checkout,
    config: TrainConfig,
    *,
    case: str,
    arm: str,
    repeat: int,
    environ: Mapping[str, str] = os.environ,
) -> Command:
    """The command of a run. Raises ConfigError, also for what an arm's MaxText cannot do."""
    settings = target.launch_settings(environ)
    image = next((word.removeprefix(IMAGE) for word in checkout.software if word.startswith(IMAGE)), None)
    if isinstance(settings, Replay):
        log = find_log(settings, case=case, arm=arm, repeat=repeat, where=f"configs/targets/{target.name}.yml")
        return PlayLog(log=log, speed=settings.speed, checkout=checkout.model_copy(update=UNKNOWN))
    if isinstance(settings, Xpk):
        if image is None and (checkout.folder or checkout.software):
            raise ConfigError([f"{target.name} runs images: give the arm '{arm}' an `image:` that holds its trainer"])
        settings = settings.model_copy(update={"image": image} if image else {})
        held = checkout.model_copy(update=UNKNOWN)
        if checkout.maxtext is None:
            return TrainInPod(checkout=held, settings=settings)
        return _checked(TrainMaxTextInPod(checkout=held, settings=settings, maxtext=checkout.maxtext, config=config))
    if image is not None:
        raise ConfigError([f"{target.name} runs no images: take the arm '{arm}' to a target whose backend is xpk"])
    if checkout.maxtext is None:
        return TrainHere(checkout=checkout)
    return _checked(TrainMaxText(checkout=checkout, maxtext=checkout.maxtext, config=config))


def _checked[C: (TrainMaxText, TrainMaxTextInPod)](command: C) -> C:
    """The command itself, once its words can be said in any folder."""
    command.argv(Path("/nowhere/run"))
    return command
