"""The settings of stored logs as jobs."""

from typing import Literal

from configs.backend_settings import LogSettings


class Replay(LogSettings):
    """Stored logs that are replayed as jobs."""

    backend: Literal["replay"] = "replay"


SETTINGS = Replay
