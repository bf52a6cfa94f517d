"""Reads twins from YAML: two settings of one trainer that must compute the same function, and why."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, TypeAdapter, ValidationError, model_validator
from ruamel.yaml.comments import CommentedMap

from configs.comparison import load_target
from configs.custom_trainer import Variable
from configs.errors import ConfigError, Problems, suggest
from configs.frozen import Frozen
from configs.load import KEYS, explain_errors
from configs.model_checks import MESH_KEYS
from configs.read import CONFIG_ROOT, display_path, origin_of, read_yaml, to_python
from configs.schema import PLACE_KEYS, TrainConfig
from configs.trainers import TrainerName

FOLDER = "invariants"
SEVERAL_DEVICES = "cpu-8"  # the target for sides with a mesh
Side = Literal["left", "right"]
SIDES: tuple[Side, Side] = ("left", "right")

type Setting = dict[str, Any]


class Need(Frozen):
    """Values that a case must have for a twin: at least one of a list, or exactly the value."""

    set: dict[str, Any]
    why: str


class Joined(Frozen):
    """How one array of the right side is made from arrays of the left side."""

    stack: tuple[str, ...] = ()  # names of arrays, along a new axis
    concatenate: tuple[str, ...] = ()  # names of arrays, along an existing axis
    axis: int = 0

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if bool(self.stack) == bool(self.concatenate):
            raise ValueError("set exactly one of stack and concatenate: the names of the left side's arrays")
        return self


class Twin(Frozen):
    """Two settings that must compute one function. A custom command has two lists of words instead of settings."""

    name: str
    origin: str  # file:1
    mapped_at: str = ""  # file:line of `parameters`, or of `right`
    title: Annotated[str, Field(min_length=1)]
    why: Annotated[str, Field(min_length=1)]
    trainers: tuple[TrainerName, ...] = ("maxview", "maxtext")
    left: dict[str, Any] | tuple[str, ...] = {}
    right: dict[str, Any] | tuple[str, ...] = {}
    both: dict[str, Any] = {}
    needs: tuple[Need, ...] = ()
    parameters: dict[str, Joined] = {}  # end of an array's name on the right side → how it is made
    batch: Literal["same", "reversed", "texts alone"] = "same"  # the right side's batch, made from the left side's
    nnx: Literal["graph", "tree"] = "graph"  # how Flax NNX walks the right side's modules
    observed: Literal["step", "evaluation"] = "step"  # of the right side: its step, or its evaluation of a batch
    gradients: Literal["own", "automatic"] = "own"  # of the right side; automatic: JAX's, without custom_vjp
    resume: Annotated[int, Field(ge=1)] | None = None  # the right side stops after so many steps, and is resumed
    # a custom program
    command: tuple[str, ...] = ()
    folder: str = "."
    copied: bool = False  # each side runs in a copy of the folder
    environment: dict[Variable, str] = {}
    devices: Annotated[int, Field(ge=1)] = 1

    @property
    def sides(self) -> tuple[Any, Any]:
        """The settings of both sides."""
        return self.left, self.right

    @property
    def is_about_more(self) -> bool:
        """Whether the sides differ in more than their settings."""
        usual = ("same", "own", "graph", "step", None)
        return (self.batch, self.gradients, self.nnx, self.observed, self.resume) != usual

    @property
    def trains(self) -> bool:
        """Whether the training steps of both sides are evaluated."""
        return self.resume is None and self.observed == "step"

    @model_validator(mode="after")
    def _check_sides(self) -> Self:
        if ("command" in self.trainers) != bool(self.command) or (self.command and len(self.trainers) > 1):
            raise ValueError(
                "command is for `trainers: [command]`: the program's words, before those of left and right"
            )
        if self.command and self.resume is not None:
            raise ValueError("resume is for trainers with the key `steps`: leave it out for a command")
        if self.left == self.right and not self.is_about_more:
            raise ValueError("left and right are equal: set what differs, in one of them")
        if any(isinstance(side, tuple) != bool(self.command) for side in self.sides if side):
            raise ValueError("left and right are key: value, or lists of words if there is a command")
        limit = load_target(SEVERAL_DEVICES).devices
        for side in self.sides:
            needed = self.devices if self.command else count_devices(self.both | side)
            if needed > limit or limit % needed:
                raise ValueError(f"needs {needed} devices, and {limit} can be simulated: choose a divisor of {limit}")
        return self

    def conflict(self, config: Mapping[str, Any]) -> str:
        """Return why a case with these values has no such twin; "" if it has."""
        for need in self.needs:
            for key, wanted in need.set.items():
                value = config.get(key)
                if value not in wanted if isinstance(wanted, list) else value != wanted:
                    return f"{key}: {value}: {need.why}" if value is not None else need.why
        return ""


def count_devices(values: Mapping[str, Any]) -> int:
    """Return the number of devices that a setting's mesh needs: the product of its sizes, -1 counting as 1."""
    product = 1
    for key in MESH_KEYS.values():
        size = values.get(key, 1)
        product *= size if isinstance(size, int) and size > 1 else 1
    return product


def list_twins() -> tuple[str, ...]:
    """Return the names of the twins that maxview has."""
    return tuple(sorted(path.stem for path in (CONFIG_ROOT / FOLDER).glob("*.yml")))


def load_twins(names: Sequence[str] = ()) -> tuple[Twin, ...]:
    """Return twins by name, or from files of the user (a path ending in .yml); without names, all that maxview has.

    Raises ConfigError with every problem: file, line and remedy.
    """
    known, problems, found = list_twins(), Problems(), []
    for name in dict.fromkeys(names or known):
        if name.endswith((".yml", ".yaml")):
            path = Path(name)
        elif name in known:
            path = CONFIG_ROOT / FOLDER / f"{name}.yml"
        else:
            there = f"there are: {', '.join(known)}; or name a file: ./mine.yml"
            problems.lines.append(f"unknown twin '{name:.80}'{suggest(name, known)}; {there}")
            continue
        twin = problems.attempt(lambda path=path: read_twin(path))  # type: ignore[misc]
        found += [twin] if twin is not None else []
    problems.raise_any()
    return tuple(found)


def read_twin(path: Path) -> Twin:
    """Return the twin in a file. Raises ConfigError with every problem of the file."""
    data = read_yaml(path)
    fields = tuple(name for name in Twin.model_fields if name not in ("name", "origin", "mapped_at"))
    problems = [
        f"{origin_of(data, path, (key,))}: unknown key '{key}'{suggest(str(key), fields)}"
        for key in data
        if key not in fields
    ]
    last = next((key for key in ("parameters", "right", "left") if key in data), None)
    facts = {"name": path.stem, "origin": f"{display_path(path)}:1"}
    facts["mapped_at"] = origin_of(data, path, (last,)) if last else ""
    try:
        twin = Twin.model_validate({key: value for key, value in to_python(data).items() if key in fields} | facts)
    except ValidationError as error:
        raise ConfigError(
            [*problems, *explain_errors(error, lambda keys: _locate(data, path, keys), fields)]
        ) from error
    problems += _find_bad_settings(twin, data, path)
    if problems:
        raise ConfigError(problems)
    return twin


def _locate(data: CommentedMap, path: Path, keys: Sequence[str | int]) -> str:
    keys = [key for key in keys if not (isinstance(key, str) and key.startswith(("dict[", "tuple[")))]
    return origin_of(data, path, keys) if list(keys) != [""] else f"{origin_of(data, path, ('right',))}"


def _find_bad_settings(twin: Twin, data: CommentedMap, path: Path) -> Iterator[str]:
    """Yield the problems of keys and values: those of a twin for maxview's trainer are keys of `base.yml`."""
    for place in ("left", "right", "both"):
        given = data.get(place)
        if not isinstance(given, Mapping):
            continue
        for key, value in to_python(given).items():
            where = origin_of(data, path, (place, key))
            if key in PLACE_KEYS:
                yield f"{where}: '{key}' is decided by the run's folder: leave it out"
            elif key in KEYS:
                yield from (f"{where}: {line}" for line in _check_value(key, value))
            elif "maxview" in twin.trainers:
                remedy = "; a key that only MaxText has needs `trainers: [maxtext]`"
                yield f"{where}: unknown key '{key}'{suggest(str(key), KEYS)}{remedy}"


def _check_value(key: str, value: Any) -> Iterator[str]:
    field = TrainConfig.model_fields[key]
    kind: Any = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
    try:
        TypeAdapter(kind).validate_python(value, strict=True)
    except ValidationError as error:
        for item in error.errors(include_url=False):
            yield f"{key}: {item['msg'].removeprefix('Value error, ').removeprefix('Input ')}, got {value!r:.80}"
