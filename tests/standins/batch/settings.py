"""The settings of the batch backend."""

from typing import Literal

from configs.backend_settings import Settings, Word


class Batch(Settings):
    """A partition of the batch system."""

    backend: Literal["batch"] = "batch"
    partition: Word


SETTINGS = Batch
