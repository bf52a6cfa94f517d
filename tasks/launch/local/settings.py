"""The settings of jobs that are processes of this machine."""

from typing import ClassVar, Literal

from configs.backend_settings import Settings


class Local(Settings):
    """This machine; it needs no settings."""

    trains_here: ClassVar[bool] = True

    backend: Literal["local"] = "local"


SETTINGS = Local
