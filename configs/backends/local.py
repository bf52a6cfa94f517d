"""Jobs as processes of this machine."""

from typing import ClassVar, Literal

from configs.backends.settings import Settings


class Local(Settings):
    """This machine; it needs no settings."""

    trains_here: ClassVar[bool] = True

    backend: Literal["local"] = "local"
