"""The settings that all backends share whose jobs wait in a queue for their machines."""

from typing import Annotated, ClassVar

from pydantic import Field

from configs.backends.settings import ImageSettings


class QueueSettings(ImageSettings):
    """Settings of a backend whose jobs wait in a queue."""

    hires_chips: ClassVar[bool] = True

    start_limit_s: Annotated[int, Field(ge=1)]  # seconds that a run may wait for machines
    attempts: Annotated[int, Field(ge=1, le=100)] = 3  # limit of starts of a run that loses its machines
