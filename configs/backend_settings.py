"""Base classes of the backends' settings, which a target's file has in the section named like its backend."""

from typing import Annotated, Any, ClassVar

from pydantic import Field

from configs.schema import Frozen

# These values are inserted into YAML and shell commands, so only characters without a meaning there are allowed.
Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/@+-]*$", max_length=250)]
Flag = Annotated[str, Field(pattern=r"^--[a-z][a-z0-9-]*(=[A-Za-z0-9._:/@+,-]+)?$", max_length=250)]
Lines = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)]


class Settings(Frozen):
    """A backend's settings. Each backend's subclass narrows the type of `backend` to its own name, as the default."""

    trains_here: ClassVar[bool] = False  # whether trainers are processes on this machine
    hires_chips: ClassVar[bool] = False  # whether a run occupies devices that are paid for

    backend: str


class ImageSettings(Settings):
    """Settings of a backend whose jobs are pods that run a container image."""

    image: Word  # contains the trainer; `python` in it is the trainer's Python

    @property
    def facts(self) -> dict[str, Any]:
        """The settings that can change a run's outcome; they enter the run's identity."""
        raise NotImplementedError


class LogSettings(Settings):
    """Settings of a backend that replays stored logs as jobs instead of training.

    `logs`: path patterns with `{case}`, `{arm}`, `{repeat}` and `*`; a run plays the file of the first that matches.
    `speed`: 1 replays in real time; at 60, a minute of the log takes a second.
    """

    logs: Lines
    speed: Annotated[float, Field(gt=0, allow_inf_nan=True)] = 1.0
