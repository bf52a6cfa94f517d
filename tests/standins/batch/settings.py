"""The settings of the batch backend."""

from typing import Literal

from configs.backends import Settings, Word


class Batch(Settings):
    """A partition of the batch system."""

    backend: Literal["batch"] = "batch"
    partition: Word


SETTINGS = Batch
