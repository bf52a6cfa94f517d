"""The settings of the backend `local`."""

from typing import ClassVar, Literal

from configs.backends.settings import Settings


class Local(Settings):
    """Jobs as processes on this machine; there is nothing to set."""

    trains_here: ClassVar[bool] = True
    shares_files: ClassVar[bool] = True

    backend: Literal["local"] = "local"


SETTINGS = Local
