"""The settings of the backend `xpk`."""

from typing import Any, Literal

from pydantic import model_validator

from configs.backends.cluster import ClusterSettings, Zone
from configs.backends.settings import Lines, PlainText


class Xpk(ClusterSettings):
    """A cluster created by xpk, and the settings of the workloads that run there."""

    backend: Literal["xpk"] = "xpk"
    project: PlainText
    zone: Zone
    tpu_type: PlainText
    priority: Literal["very-low", "low", "medium", "high", "very-high"] = "medium"
    argv: Lines = ("xpk",)  # xpk's command, for example [uvx, xpk==1.16.0]

    @model_validator(mode="before")
    @classmethod
    def _read_older(cls, value: Any) -> Any:
        """Drop the field `extra` of settings that an older version stored."""
        return {key: item for key, item in value.items() if key != "extra"} if isinstance(value, dict) else value

    @property
    def facts(self) -> dict[str, Any]:
        """The settings that can change a run's outcome; see ImageSettings."""
        return self.model_dump(include={"image", "tpu_type", "num_slices"})


SETTINGS = Xpk
