"""Builds trainers' commands from maxview's configs, and reads the metrics files that MaxText writes."""

from importlib import import_module
from typing import TYPE_CHECKING

from configs.trainers import find_kind

if TYPE_CHECKING:
    from tasks.resolve.trainers.trainer import Trainer

# name → module with TRAINER, a subclass of `Trainer`; configs/trainers.py has the kind of the same name
TRAINERS = {name: f"{__name__}.{name}_trainer" for name in ("maxview", "maxtext", "command")}


def trainer_class(name: str) -> "type[Trainer]":
    """Return the class of the trainer of this name. Raises ValueError for an unknown name."""
    find_kind(name)
    trainer: type[Trainer] = import_module(TRAINERS[name]).TRAINER
    return trainer
