"""Reads in which config keys, variables and compiler flags two runs may differ and train the same, and why."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from configs.errors import ConfigError
from configs.load import explain
from configs.read import CONFIG_ROOT, origin_of, plain, read_yaml
from configs.schema import Frozen

Names = Annotated[tuple[str, ...], Field(min_length=1)]


class Group(Frozen):
    """Names that may differ for one reason; `when`: only where both runs have these values."""

    why: Annotated[str, Field(min_length=1)]
    names: Names
    when: dict[str, str] = {}


class Inert(Frozen):
    """What is a run's own, what it reads, and what does not change what it trains."""

    own: tuple[Group, ...]
    inputs: Names
    inert: tuple[Group, ...]

    def is_own(self, name: str) -> bool:
        """Whether the value is the run's own name, folder, port or host."""
        return any(_matches(name, group.names) for group in self.own)

    def is_input(self, name: str) -> bool:
        """Whether the value names something that the run reads."""
        return _matches(name, self.inputs)

    def why(self, name: str, *sides: Mapping[str, str]) -> str | None:
        """Why a difference in this name does not matter between runs with these settings; None: it may matter."""
        return next((g.why for g in self.inert if _matches(name, g.names) and _holds(g.when, sides)), None)


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _holds(when: Mapping[str, str], sides: tuple[Mapping[str, str], ...]) -> bool:
    # MaxText prints some of its values as Python shows an enumeration: DatasetType.SYNTHETIC
    return all(
        side.get(key, "").rpartition(".")[2].strip("'\"").lower() == value
        for side in sides
        for key, value in when.items()
    )


@cache
def load_inert(path: Path = CONFIG_ROOT / "inert.yml") -> Inert:
    """What the file says. Raises ConfigError."""
    data = read_yaml(path)
    try:
        return Inert.model_validate(plain(data))
    except ValidationError as error:
        known = tuple({*Inert.model_fields, *Group.model_fields})
        raise ConfigError(explain(error, lambda keys: origin_of(data, path, keys), known)) from error
