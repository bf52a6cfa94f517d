"""Loads configs/inert.yml: config keys, environment variables and compiler flags without an effect on training."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import Annotated

from pydantic import Field, ValidationError

from configs.errors import ConfigError
from configs.load import explain
from configs.read import CONFIG_ROOT, origin_of, plain, read_yaml
from configs.schema import Frozen

Names = Annotated[tuple[str, ...], Field(min_length=1)]


class Group(Frozen):
    """Name patterns of settings that may differ for the reason `why`, if both runs have the settings in `when`."""

    why: Annotated[str, Field(min_length=1)]
    names: Names
    when: dict[str, str] = {}


class Inert(Frozen):
    """The contents of configs/inert.yml: name patterns of config keys, environment variables and compiler flags."""

    own: tuple[Group, ...]  # values of a single run, such as its name and folder
    inputs: Names  # files that a run reads: their values affect training
    inert: tuple[Group, ...]  # settings without an effect on training

    def is_own(self, name: str) -> bool:
        """Return whether the setting is a run's own name, folder, access token, port or host."""
        return any(_matches(name, group.names) for group in self.own)

    def is_input(self, name: str) -> bool:
        """Return whether the setting names an input of the run."""
        return _matches(name, self.inputs)

    def why(self, name: str, *sides: Mapping[str, str]) -> str | None:
        """Return why a difference in this setting is harmless; None if it may matter. sides: both runs' settings."""
        return next((g.why for g in self.inert if _matches(name, g.names) and _holds(g.when, sides)), None)


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _holds(when: Mapping[str, str], sides: tuple[Mapping[str, str], ...]) -> bool:
    # MaxText prints some values as Python enumeration members: DatasetType.SYNTHETIC
    return all(
        side.get(key, "").rpartition(".")[2].strip("'\"").lower() == value
        for side in sides
        for key, value in when.items()
    )


@cache
def load_inert() -> Inert:
    """Return the contents of `configs/inert.yml`. Raises ConfigError."""
    path = CONFIG_ROOT / "inert.yml"
    data = read_yaml(path)
    try:
        return Inert.model_validate(plain(data))
    except ValidationError as error:
        known = tuple({*Inert.model_fields, *Group.model_fields})
        raise ConfigError(explain(error, lambda keys: origin_of(data, path, keys), known)) from error
