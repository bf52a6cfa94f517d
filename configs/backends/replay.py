"""Stored logs as jobs."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from configs.backends.settings import Lines, Settings


class Replay(Settings):
    """Stored logs that are replayed as jobs.

    `logs`: patterns of a run's log with `{case}`, `{arm}`, `{repeat}` and `*`; the first that matches a file counts.
    `speed`: 1 replays in real time; at 60 a minute of the log takes a second.
    """

    plays_logs: ClassVar[bool] = True

    backend: Literal["replay"] = "replay"
    logs: Lines
    speed: Annotated[float, Field(gt=0, allow_inf_nan=True)] = 1.0
