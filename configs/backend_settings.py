"""The common parts of all backends' settings: the section of its name in a target's file."""

from typing import Annotated, Any, ClassVar

from pydantic import Field

from configs.schema import Frozen

# inserted into YAML and shell commands, so only plain words are safe
Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/@+-]*$", max_length=250)]
Flag = Annotated[str, Field(pattern=r"^--[a-z][a-z0-9-]*(=[A-Za-z0-9._:/@+,-]+)?$", max_length=250)]
Lines = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)]


class Settings(Frozen):
    """A backend's settings. Each backend narrows `backend` to its name, which is also the default."""

    trains_here: ClassVar[bool] = False  # trainers are processes of this machine
    hires_chips: ClassVar[bool] = False  # a run occupies devices that are paid for

    backend: str


class ImageSettings(Settings):
    """Settings of a backend whose jobs are pods of an image."""

    image: Word  # with the trainer, its Python first on the path

    @property
    def facts(self) -> dict[str, Any]:
        """The settings that decide the outcome of a run: part of its identity."""
        raise NotImplementedError


class LogSettings(Settings):
    """Settings of a backend that replays stored logs as jobs instead of training.

    `logs`: patterns of a run's log with `{case}`, `{arm}`, `{repeat}` and `*`; the first that matches a file counts.
    `speed`: 1 replays in real time; at 60 a minute of the log takes a second.
    """

    logs: Lines
    speed: Annotated[float, Field(gt=0, allow_inf_nan=True)] = 1.0
