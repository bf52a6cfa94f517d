"""The base of all records and of the schemas of configs: immutable, without unknown keys."""

from typing import Any, Self

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """An immutable record that rejects unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, ser_json_inf_nan="strings")

    def replace(self, **changes: Any) -> Self:
        """Return the record with other values in some fields, checked as a new record is.

        Raises pydantic's ValidationError for a name that is no field and for a value of another type.
        """
        kept = {name: getattr(self, name) for name in self.model_fields_set if name not in changes}
        return type(self)(**kept, **changes)
