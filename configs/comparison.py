"""Loads and validates comparisons and targets, and loads the config values of cases and models.

A comparison trains two arms (the compared versions of a trainer or of its settings) on a target (a place to run), once
per repeat for every case (a set of config values that both arms share).
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError, model_validator
from ruamel.yaml.comments import CommentedMap

from configs.backends import BACKENDS, BackendName, fill_in, settings_model, take_section
from configs.backends.settings import Settings
from configs.custom_trainer import CommandTemplate, Variable
from configs.environment import PASSED_ON, is_own
from configs.errors import ConfigError, Problems, suggest
from configs.findings import read_rules
from configs.frozen import Frozen
from configs.load import ConfigValue, explain_errors, layer_from_map
from configs.names import NAME, NAME_RULE, Kind, find, project_folder
from configs.read import CONFIG_ROOT, display_path, first_comment, origin_of, read_yaml, to_python
from configs.topologies import GIB, find_topology
from configs.trainers import TrainerKind, TrainerName, find_kind

type Named = tuple[
    Kind, str, tuple[str | int, ...]
]  # a reference from one YAML file to another: kind and name of the other file, and the keys that lead to the reference
Start = Literal["own", "shared"]
MAX_REPEATS = 100  # limit of runs per arm of a case
ENOUGH_REPEATS = 30  # default limit of runs per arm of a case for --until-decided
BY_DEVICE = (
    "step_time_s",
    "step_cpu_time_s",
)  # metrics that a tolerances file may omit: configs/noise.yml has their tolerances for every kind of device


def _check_name(text: str) -> str:
    if not NAME.fullmatch(text):
        raise ValueError(NAME_RULE)
    return text


def tolerance_names() -> tuple[str, ...]:
    """Return the metrics that a tolerances file may have: BY_DEVICE, and those of the file `default` (required)."""
    return *BY_DEVICE, *read_yaml(find("tolerances", "default"))


def _check_tolerance(name: str) -> str:
    known = tolerance_names()
    if name not in known:
        raise ValueError(f"unknown metric '{name}'{suggest(name, known)}; there are: {', '.join(known)}")
    return name


Name = Annotated[str, AfterValidator(_check_name)]
FunctionName = Annotated[str, Field(pattern=r"^[A-Za-z_<]\w*>?$")]  # also `<lambda>`


def _as_list(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


ToleranceName = Annotated[str, AfterValidator(_check_tolerance)]
TopologyName = Annotated[str, AfterValidator(lambda name: find_topology(name).name)]
Count = Annotated[int, Field(ge=1, strict=True)]  # strict rejects `true`, a subclass of int
Size = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]


class Arm(Frozen):
    """One side of a comparison: a name, and its declared differences from the other side.

    `set`: config keys with this arm's values. `ref`: the trainer's branch, tag or commit in `repository`. `packages`,
    such as `jax==0.11.0`, are installed in an environment for this arm; `python` is an existing interpreter;
    `image`: for targets that run images. `trainer`, `repository` and `command` (custom) override the comparison's.
    """

    name: Name
    set: dict[str, Any] = {}
    trainer: TrainerName | None = None
    repository: Annotated[str, Field(min_length=1)] | None = None
    ref: Annotated[str, Field(min_length=1)] | None = None
    packages: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    python: Annotated[str, Field(min_length=1)] | None = None
    image: Annotated[str, Field(min_length=1)] | None = None
    command: CommandTemplate | None = None

    @model_validator(mode="after")
    def _check_environment(self) -> Self:
        if self.packages and self.python:
            raise ValueError(f"{self.name}: set at most one of packages and python")
        if self.repository and self.ref is None:
            raise ValueError(f"{self.name}: a repository is only read for an arm that has a ref")
        return self


class Comparison(Frozen):
    """Two arms, each trained `repeats` times for every case on a target. `question` is the file's first comment."""

    name: Name
    question: str
    trainer: TrainerName
    target: Name
    cases: Annotated[tuple[Name, ...], Field(min_length=1)]
    repeats: Annotated[Count, Field(le=MAX_REPEATS)]
    tolerances: Name
    comparability: Name = "default"  # file in configs/comparability: the effect of each finding on the verdict
    findings: dict[str, Any] = {}  # entries that override that file's; each is a `FindingRule` (configs/findings.py)
    allow: dict[ToleranceName, Annotated[str, Field(min_length=1)]] = {}  # metric that may change → reason
    arms: tuple[Arm, ...]
    set: dict[str, Any] = {}
    repository: Annotated[str, Field(min_length=1)] | None = None  # contains the arms' refs; None: maxview's checkout
    command: CommandTemplate | None = None  # for every arm with a custom trainer and no command of its own
    explain: Literal["auto", "off"] = "auto"  # auto: if the arms differ, search for the cause
    # shared: the second arm starts with the first arm's weights, optimizer moments and batches. own: each arm
    # initializes its own. Default: shared if the arms are MaxText's Linen and MaxText's NNX, which initialize different
    # weights from the same seed; else own.
    start: Start | None = None
    # the jitted functions of the step, the first of which begins it; empty: they are found by what they compute
    step: Annotated[tuple[FunctionName, ...], BeforeValidator(_as_list)] = ()

    @model_validator(mode="after")
    def _check_arms(self) -> Self:
        names = [arm.name for arm in self.arms]
        if len(names) != 2 or names[0] == names[1]:
            raise ValueError(f"arms must be two with different names, not {', '.join(names) or 'none'}")
        kinds = [self.kind_of(arm) for arm in self.arms]
        one_has_a_ref = (self.arms[0].ref is None) != (self.arms[1].ref is None)
        if one_has_a_ref and kinds[0].pairs_refs and kinds[1].pairs_refs:
            raise ValueError("either both arms have a ref or none")
        if self.repository and not any(arm.ref for arm in self.arms):
            raise ValueError("a repository is only read for arms that have a ref")
        for arm, kind in zip(self.arms, kinds, strict=True):
            _check_arm(arm, kind, self.command_of(arm), arm.repository or self.repository)
        if self.command is not None and not self.has_command:
            raise ValueError("a command is only run for `trainer: command`")
        return self

    def command_of(self, arm: Arm) -> CommandTemplate | None:
        """Return the command template of an arm; None if its trainer is not custom, or if it has no command."""
        return (arm.command or self.command) if self.kind_of(arm).takes_command else None

    def trainer_of(self, arm: Arm) -> str:
        """Return the name of an arm's trainer."""
        return arm.trainer or self.trainer

    def kind_of(self, arm: Arm) -> TrainerKind:
        """Return the kind of an arm's trainer."""
        return find_kind(self.trainer_of(arm))

    @property
    def has_command(self) -> bool:
        """Whether at least one arm has a custom trainer."""
        return any(self.kind_of(arm).takes_command for arm in self.arms)

    @property
    def shares_start(self) -> bool:
        """Whether the second arm starts with the first arm's weights, optimizer moments and batches."""
        apart = not any(self.kind_of(arm).starts_alike for arm in self.arms)
        implementations = {arm.set.get("pure_nnx") for arm in self.arms} == {False, True}
        return self.start == "shared" or (self.start is None and apart and implementations)

    @property
    def has_refs(self) -> bool:
        """Whether both arms have a ref."""
        return all(arm.ref is not None for arm in self.arms)


def _check_arm(arm: Arm, kind: TrainerKind, command: CommandTemplate | None, repository: str | None) -> None:
    """Raise ValueError if an arm's settings do not fit its trainer. command, repository: its own, or for both arms."""
    if arm.command is not None and not kind.takes_command:
        raise ValueError(f"{arm.name}: a command is only run for `trainer: command`")
    if command is None and kind.takes_command:
        raise ValueError(f"{arm.name}: say with `command:` how its trainer is started")
    if command is not None and (command.folder is None) == (arm.ref is None):
        raise ValueError(f"{arm.name}: set exactly one of ref and command.folder: where its program is")
    if arm.ref and not repository and kind.has_repository:
        raise ValueError(f"{arm.name}: say where its ref is, with `repository:`")
    if arm.image and (arm.packages or arm.python) and kind.has_image:
        raise ValueError(f"{arm.name}: set at most one of packages, python and image")


class Target(Frozen):
    """A place to run: the backend, the devices, a model that fits them, and the trainer's environment variables.

    `environment`: variables to set. `pass_on`: names of the caller's variables that a local trainer gets in addition to
    those in PASSED_ON (configs/environment.py); it gets no others. `wrap`: words before a local trainer's command, such
    as `[unshare, --user, --net, --]`.

    `launch`: settings of the backend; the file has them in the section named like the backend. `${NAME}` in them is
    replaced by the environment variable NAME. The values are checked when a run is planned for the target.
    """

    name: Name
    backend: BackendName
    devices: Count
    topology: TopologyName | None = None  # name in configs/topologies.py, for ahead-of-time compiles
    memory_gib: Size | None = None  # GiB per device; omit for CPUs and for targets with a topology
    dollars_per_chip_hour: Size | None = None  # US dollars; only used to estimate the cost of further runs
    model: Name
    time_limit_s: Count
    environment: dict[str, str] = {}
    pass_on: tuple[Variable, ...] = ()
    wrap: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    set: dict[str, Any] = {}
    launch: dict[str, Any] = {}

    _take_section = model_validator(mode="before")(take_section)

    @model_validator(mode="after")
    def _check_settings(self) -> Self:
        if not self.shares_files and (self.pass_on or self.wrap):
            names = " or ".join(name for name in BACKENDS if settings_model(name).shares_files)
            raise ValueError(f"pass_on and wrap are for trainers that use this machine's files (backend {names})")
        if self.topology is not None:
            devices = find_topology(self.topology).devices
            if devices != self.devices:
                raise ValueError(f"topology {self.topology} has {devices} devices, not {self.devices}")
            if self.memory_gib is not None:
                raise ValueError("a topology knows its memory: leave memory_gib out")
        own = [name for name in self.pass_on if is_own(name)]
        if own:
            raise ValueError(f"pass_on: {', '.join(own)} is maxview's own, which no trainer gets")
        return self

    @property
    def trains_here(self) -> bool:
        """Whether trainers run on this machine."""
        return settings_model(self.backend).trains_here

    @property
    def shares_files(self) -> bool:
        """Whether trainers use this machine's files and get the passed-on variables."""
        return settings_model(self.backend).shares_files

    @property
    def hires_chips(self) -> bool:
        """Whether a run occupies devices that are paid for."""
        return settings_model(self.backend).hires_chips

    @property
    def device_memory_gib(self) -> float | None:
        """Memory per device in GiB; None if the target sets neither topology nor memory_gib."""
        return find_topology(self.topology).hbm_bytes / GIB if self.topology else self.memory_gib

    @property
    def platform(self) -> str | None:
        """The JAX platform ("cpu", "gpu", "tpu"); None if the target does not set it."""
        named = self.environment.get("JAX_PLATFORMS", "").partition(",")[0] or self.set.get("hardware")
        return "gpu" if named in ("cuda", "rocm") else named

    @property
    def passed_on(self) -> tuple[str, ...]:
        """Name patterns of the caller's variables that a trainer gets; empty unless it uses this machine's files."""
        return (*PASSED_ON, *self.pass_on) if self.shares_files else ()

    def launch_settings(self, environ: Mapping[str, str]) -> Settings:
        """Return the backend's settings with environment variables replaced. Raises ConfigError.

        A backend that has a setting `topology` gets the target's. Several slices are set in the backend's section only:
        the target's topology is for compiles, which are for one slice.
        """
        model, where = settings_model(self.backend), f"configs/targets/{self.name}.yml"
        own = {"topology": self.topology} if self.topology and "topology" in model.model_fields else {}
        settings = fill_in(own | self.launch, model, where, environ)
        if settings.devices not in (None, self.devices):
            raise ConfigError([f"{where}: {self.backend} selects {settings.devices} devices, not {self.devices}"])
        return settings


def _load[T: BaseModel](path: Path, data: CommentedMap, model: type[T], **given: Any) -> T:
    """Return a file's content `data` as a `model`. Raises ConfigError. `given`: values that the file cannot set."""
    fields = tuple(name for name in model.model_fields if name not in given)
    if model is Target:  # a target's file has `launch` under the backend's name
        fields = (*(name for name in fields if name != "launch"), *BACKENDS)
    known = (*fields, *Arm.model_fields) if model is Comparison else fields
    problems = [
        f"{origin_of(data, path, (key,))}: unknown key '{key}'{suggest(str(key), fields)}"
        for key in data
        if key not in fields
    ]
    try:
        record = model.model_validate({k: v for k, v in to_python(data).items() if k in fields} | given)
    except ValidationError as error:
        problems += explain_errors(error, lambda keys: origin_of(data, path, keys), known)
        raise ConfigError(problems) from error
    if problems:
        raise ConfigError(problems)
    return record


def find_missing(named: Sequence[Named], data: CommentedMap, path: Path, root: Path) -> Iterator[str]:
    """Yield a problem, with `file:line`, for each of the references `named` whose file is missing.

    path: the file that contains the references. data: its content.
    """
    for kind, name, keys in named:
        try:
            find(kind, name, root=root)
        except ConfigError as error:
            yield from (f"{origin_of(data, path, keys)}: {line}" for line in error.problems)


def load_comparison(name: str, *, root: Path = CONFIG_ROOT) -> Comparison:
    """Return a comparison by name. Raises ConfigError.

    References to missing files are reported only if the comparison's own values are valid.
    """
    path = find("comparisons", name, root=root)
    data = read_yaml(path)
    question, given = first_comment(path), {}
    problems = Problems()
    own = project_folder()
    if own is not None and path.is_relative_to(own):  # a file in a trainer's own clone
        question = question or f"Do both versions train alike? {name}"
        refs = any(isinstance(arm, dict) and arm.get("ref") for arm in to_python(data.get("arms") or []))
        given = {"repository": str(own.parent)} if refs and "repository" not in data else {}
    if not question:
        problems.lines.append(f"{display_path(path)}:1: begin with a comment that says what is compared")
    spec = problems.attempt(lambda: _load(path, data, Comparison, name=name, question=question, **given))
    if spec is not None and own is not None and given:
        spec = spec.replace(arms=tuple(_with_python(arm, own.parent) for arm in spec.arms))
    if "findings" in data:
        problems.attempt(lambda: read_rules(data["findings"], path))
    named: list[Named] = []
    if spec is not None:
        named += [("targets", spec.target, ("target",)), ("tolerances", spec.tolerances, ("tolerances",))]
        named += [("comparability", spec.comparability, ("comparability",))]
        named += [("cases", case, ("cases", index)) for index, case in enumerate(spec.cases)]
    problems.lines += find_missing(named, data, path, root)
    problems.raise_any()
    assert spec is not None  # else `raise_any` has raised
    return spec


def _with_python(arm: Arm, clone: Path) -> Arm:
    """Return an arm of a file in a clone; a relative path of its Python begins at the clone's root."""
    if arm.python is None or "/" not in arm.python or arm.python.startswith(("/", "~")):
        return arm
    return arm.replace(python=str(clone / arm.python))


def load_target(name: str, *, root: Path = CONFIG_ROOT) -> Target:
    """Return a target by name. Raises ConfigError."""
    path = find("targets", name, root=root)
    return _load(path, read_yaml(path), Target, name=name)


def load_layer(kind: Kind, name: str, layer: str, *, root: Path = CONFIG_ROOT) -> dict[str, ConfigValue]:
    """Return the config values in a model's or case's file, by key. layer: the name of the layer, such as "case"."""
    path = find(kind, name, root=root)
    return layer_from_map(read_yaml(path), path, layer)


def read_set_layer(kind: Kind, name: str, layer: str, *, root: Path = CONFIG_ROOT) -> dict[str, ConfigValue]:
    """Return the config values under `set:` in a valid target's or comparison's file, by key; {} without `set:`."""
    path = find(kind, name, root=root)
    data = read_yaml(path).get("set")
    return layer_from_map(data, path, layer) if data else {}


def arm_layer(comparison: str, arm: str, *, root: Path = CONFIG_ROOT) -> dict[str, ConfigValue]:
    """Return the config values under `set:` of one arm, by key. Raises ConfigError for an unknown arm."""
    path = find("comparisons", comparison, root=root)
    arms = {item["name"]: item for item in read_yaml(path)["arms"]}
    if arm not in arms:
        names = tuple(arms)
        raise ConfigError([f"unknown arm '{arm}' of {comparison}{suggest(arm, names)}; there are: {', '.join(names)}"])
    data = arms[arm].get("set")
    return layer_from_map(data, path, "arm") if data else {}
