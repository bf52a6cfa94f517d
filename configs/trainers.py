"""Lists the trainers, which are the programs that a comparison can train with, and loads the class of each."""

from importlib import import_module
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator

from configs.errors import suggest

if TYPE_CHECKING:
    from tasks.resolve.trainers.trainer import Trainer

# Name -> module with TRAINER, a subclass of `Trainer`. Imported by name, because configs must not depend on tasks.
TRAINERS = {
    "maxview": "tasks.resolve.trainers.maxview_trainer",
    "maxtext": "tasks.resolve.trainers.maxtext_trainer",
    "command": "tasks.resolve.trainers.custom_trainer",
}


def _check_trainer(name: str) -> str:
    if name not in TRAINERS:
        raise ValueError(f"unknown trainer '{name}'{suggest(name, tuple(TRAINERS))}; there are: {', '.join(TRAINERS)}")
    return name


TrainerName = Annotated[str, AfterValidator(_check_trainer)]


def trainer_class(name: str) -> "type[Trainer]":
    """Return the class of the trainer of this name. Raises ValueError for an unknown name."""
    trainer: type[Trainer] = import_module(TRAINERS[_check_trainer(name)]).TRAINER
    return trainer
