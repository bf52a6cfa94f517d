"""The settings of the batch backend."""

from typing import ClassVar, Literal

from configs.backends.settings import PlainText, Settings


class Batch(Settings):
    """A partition of the batch system."""

    shares_files: ClassVar[bool] = True

    backend: Literal["batch"] = "batch"
    partition: PlainText


SETTINGS = Batch
