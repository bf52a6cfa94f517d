"""The settings of a custom trainer in a comparison's file: the command, and the files that the trainer writes."""

from collections.abc import Mapping
from pathlib import PurePosixPath
from string import Formatter
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from configs.errors import suggest
from configs.frozen import Frozen
from configs.schema import PLACE_KEYS, TrainConfig

# placeholders besides config keys: the run's name, its folder, the program's folder, the Python of the arm
OWN = ("run_name", "out", "checkout", "python")
TYPED_MARK = "typed:"  # before the name of a comparison that stands for a command typed after `--`
KEYS = tuple(key for key in TrainConfig.model_fields if key not in PLACE_KEYS)


def _check_template(text: str) -> str:
    try:
        names = names_in(text)
    except ValueError as error:
        raise ValueError(f"{text!r:.60}: {error}; a brace that is meant is written twice") from error
    known = (*OWN, *KEYS)
    unknown = [f"{{{name}}}{suggest(name, known)}" for name in names if name not in known]
    if unknown:
        raise ValueError(f"nothing stands for {', '.join(unknown)}: there are {', '.join(OWN)} and the config's keys")
    return text


def _check_inside(text: str) -> str:
    path = PurePosixPath(text)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise ValueError(f"{text!r} must be a path inside the run's folder, such as 'checkpoints' (give it {{out}})")
    return text


def names_in(template: str) -> list[str]:
    """Return the names in braces. Raises ValueError for unpaired braces, or anything but a plain name in braces."""
    names = []
    for _, name, form, conversion in Formatter().parse(template):
        if name is None:
            continue
        if form or conversion or not name.isidentifier():
            raise ValueError(f"{{{name}}} is not a plain name")
        names.append(name)
    return names


Template = Annotated[str, AfterValidator(_check_template)]
Inside = Annotated[str, AfterValidator(_check_inside)]
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class CommandTemplate(Frozen):
    """A custom trainer's command, which trains one run and prints a log in a format that maxview can read.

    Every argument and every variable's value may contain `{run_name}`, `{out}` (the run's folder), `{checkout}` (the
    program's folder, in which it starts), `{python}` and `{KEY}` for each config key in KEYS. `folder`: the program's
    folder, if the arm has no ref. `checkpoints`: folder of Orbax checkpoints in the run's folder; None: no checkpoints.
    `metrics`: file in the run's folder, with JSON lines in maxview's or MaxText's format. `resume`: arguments added
    once a checkpoint exists. `copied`: each run starts in a copy of the program's folder, {out}/work, or its subfolder
    `within`: for programs that write into their working folder. `ended`: each run is ended after
    `steps` calls of its step.
    """

    argv: Annotated[tuple[Template, ...], Field(min_length=1)]
    environment: dict[Variable, Annotated[str, AfterValidator(_check_template)]] = {}
    folder: Annotated[str, Field(min_length=1)] | None = None
    checkpoints: Inside | None = None
    metrics: Inside = "metrics.jsonl"
    resume: tuple[Template, ...] = ()
    copied: bool = False
    within: Inside | None = None
    ended: bool = False

    @model_validator(mode="after")
    def _check_fit(self) -> Self:
        if not self.argv[0]:
            raise ValueError("argv: begin with the program")
        if self.within and not self.copied:
            raise ValueError("within: a subfolder is only started in a copy, with `copied: true`")
        if self.resume and self.checkpoints is None:
            raise ValueError("resume: say with `checkpoints:` where they are looked for")
        return self

    @property
    def names(self) -> frozenset[str]:
        """The names of all placeholders."""
        texts = (*self.argv, *self.environment.values(), *self.resume)
        return frozenset(name for text in texts for name in names_in(text))

    def fill(self, values: Mapping[str, str]) -> "CommandTemplate":
        """Return the template with its placeholders replaced by values."""
        return self.replace(
            argv=tuple(word.format_map(values) for word in self.argv),
            environment={name: text.format_map(values) for name, text in self.environment.items()},
            resume=tuple(word.format_map(values) for word in self.resume),
        )
