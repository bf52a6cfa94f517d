"""Lists and finds the files in configs/, by kind and name. Needs no models, so that a list of names takes no time."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from configs.errors import ConfigError, suggest
from configs.read import CONFIG_ROOT

BLESSED = "blessed"  # in place of a ref of the first arm: the runs in configs/baselines; the arm is not trained

type Kind = Literal["cases", "models", "targets", "comparisons", "tolerances", "comparability"]
SINGULAR: Mapping[Kind, str] = {
    "cases": "case",
    "models": "model",
    "targets": "target",
    "comparisons": "comparison",
    "tolerances": "set of tolerances",
    "comparability": "set of findings",
}
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
NAME_RULE = "a name begins with a letter or digit and has only letters, digits, '.', '_' and '-', at most 64"


def list_names(kind: Kind, *, root: Path = CONFIG_ROOT) -> tuple[str, ...]:
    """Return the names of the files in configs/KIND, sorted and without `.yml`."""
    return tuple(sorted(path.stem for path in (root / kind).glob("*.yml")))


def find(kind: Kind, name: str, *, root: Path = CONFIG_ROOT) -> Path:
    """Return the path of configs/KIND/NAME.yml. Raises ConfigError with the known names if there is no such file."""
    names = list_names(kind, root=root)
    if name in names:
        return root / kind / f"{name}.yml"
    shape = "" if NAME.fullmatch(name) else f"; {NAME_RULE}"
    raise ConfigError(
        [f"unknown {SINGULAR[kind]} '{name}'{suggest(name, names)}{shape}; there are: {', '.join(names)}"]
    )
