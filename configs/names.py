"""Lists and finds the files in configs/, by kind and name. Needs no models, so that a list of names takes no time."""

import os
import re
from collections.abc import Iterator, Mapping
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
PROJECT = ".maxview"  # folder in a user's clone with the same subfolders as configs/
TYPED = "typed"  # folder in the cache with the comparisons of commands that were typed after `--`
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
NAME_RULE = "a name begins with a letter or digit and has only letters, digits, '.', '_' and '-', at most 64"


def default_cache() -> Path:
    """Return the folder of checkouts and environments: $MAXVIEW_CACHE, or ~/.cache/maxview."""
    return Path(os.environ.get("MAXVIEW_CACHE") or Path.home() / ".cache" / "maxview").absolute()


def project_folder() -> Path | None:
    """Return the nearest folder PROJECT from the working folder up to its clone's root; None if there is none."""
    here = Path.cwd()
    clone = next((place for place in (here, *here.parents) if (place / ".git").exists()), here)
    places = [place for place in (here, *here.parents) if place.is_relative_to(clone)]
    return next((place / PROJECT for place in places if (place / PROJECT).is_dir()), None)


def _folders(root: Path) -> Iterator[Path]:
    """Yield the folders that are searched for files, the first match counts: a project's, then maxview's own."""
    if root == CONFIG_ROOT and (own := project_folder()) is not None:
        yield own
    yield root


def list_names(kind: Kind, *, root: Path = CONFIG_ROOT) -> tuple[str, ...]:
    """Return the names of the files in configs/KIND and of the project's, sorted and without `.yml`."""
    return tuple(sorted({path.stem for folder in _folders(root) for path in (folder / kind).glob("*.yml")}))


def typed_names() -> tuple[str, ...]:
    """Return the names of the comparisons that were typed as commands; they are found, but not listed."""
    return tuple(path.stem for path in (default_cache() / TYPED / "comparisons").glob("*.yml"))


def find(kind: Kind, name: str, *, root: Path = CONFIG_ROOT) -> Path:
    """Return the path of KIND/NAME.yml: the project's, else that in configs/, else that of a typed command.

    Raises ConfigError with the known names if there is no such file.
    """
    names = list_names(kind, root=root)
    places = [*_folders(root), *([default_cache() / TYPED] if root == CONFIG_ROOT else [])]
    if NAME.fullmatch(name):
        for folder in places:
            if (path := folder / kind / f"{name}.yml").is_file():
                return path
    shape = "" if NAME.fullmatch(name) else f"; {NAME_RULE}"
    raise ConfigError(
        [f"unknown {SINGULAR[kind]} '{name}'{suggest(name, names)}{shape}; there are: {', '.join(names)}"]
    )
