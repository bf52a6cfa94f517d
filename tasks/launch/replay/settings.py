"""The settings of the backend `replay`."""

from typing import Literal

from configs.backends import LogSettings


class Replay(LogSettings):
    """The settings of a target that replays stored logs as jobs."""

    backend: Literal["replay"] = "replay"


SETTINGS = Replay
