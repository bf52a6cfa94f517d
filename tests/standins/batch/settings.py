"""The settings of the batch backend."""

from typing import Literal

from configs.backends import PlainText, Settings


class Batch(Settings):
    """A partition of the batch system."""

    backend: Literal["batch"] = "batch"
    partition: PlainText


SETTINGS = Batch
