"""Lists the trainers, which are the programs that a comparison can train with, and what its file may say of each."""

from typing import Annotated, NamedTuple

from pydantic import AfterValidator

from configs.errors import suggest


class TrainerKind(NamedTuple):
    """What a comparison's file may say of its arms with one trainer."""

    takes_command: bool = False  # whether a template in the file starts it, for the file's cases only
    starts_alike: bool = True  # whether Linen and NNX start with the same weights for one seed
    pairs_refs: bool = False  # whether two arms of this trainer have two refs or none
    has_repository: bool = True  # whether its source is not in maxview's clone: an arm's ref needs `repository`
    has_image: bool = False  # whether an image has all of its software: no packages or Python beside it


# name → kind; `TRAINERS` of tasks/resolve/trainers has the class of the same name
TRAINERS = {
    "maxview": TrainerKind(pairs_refs=True, has_repository=False, has_image=True),
    "maxtext": TrainerKind(starts_alike=False),
    "command": TrainerKind(takes_command=True),
}


def find_kind(trainer: str) -> TrainerKind:
    """Return the kind of a trainer. Raises ValueError for an unknown name."""
    return TRAINERS[_check_trainer(trainer)]


def _check_trainer(name: str) -> str:
    if name not in TRAINERS:
        raise ValueError(f"unknown trainer '{name}'{suggest(name, tuple(TRAINERS))}; there are: {', '.join(TRAINERS)}")
    return name


TrainerName = Annotated[str, AfterValidator(_check_trainer)]
