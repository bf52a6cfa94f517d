"""The base classes of the backends' settings."""

from typing import Annotated, Any, ClassVar

from pydantic import Field

from configs.frozen import Frozen

# `PlainText` is inserted into YAML and shell commands, so only characters without a meaning there are
# allowed.
PlainText = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/@+-]*$", max_length=250)]
Lines = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)]


class Settings(Frozen):
    """A backend's settings. Each subclass declares `backend` as a literal, its own name, which is also the default."""

    trains_here: ClassVar[bool] = False  # whether trainers are processes on this machine
    shares_files: ClassVar[bool] = False  # whether trainers use this machine's files and get the caller's variables
    hires_chips: ClassVar[bool] = False  # whether a run occupies devices that are paid for

    backend: str

    @property
    def devices(self) -> int | None:
        """The number of JAX devices that the settings select; None if they select none."""
        return None


class ImageSettings(Settings):
    """Settings of a backend whose jobs can run a container image."""

    # contains the trainer; `python` in it is the trainer's Python. None: the trainer is in this machine's files
    image: PlainText | None

    @property
    def facts(self) -> dict[str, Any]:
        """The settings that can change a run's outcome; they enter the run's identity."""
        raise NotImplementedError

    @property
    def alone(self) -> bool:
        """Whether a run has a single process of the trainer."""
        return False
