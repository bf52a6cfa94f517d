"""The base of all records and of the schemas of configs: immutable, without unknown keys."""

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """An immutable record that rejects unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, ser_json_inf_nan="strings")
