"""Reads comparisons, cases, targets and tolerances by name."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, Field, ValidationError, model_validator
from ruamel.yaml.comments import CommentedMap

from configs.backend_settings import LogSettings, Settings
from configs.custom_trainer import CommandTemplate
from configs.environment import PASSED_ON, is_own
from configs.errors import ConfigError, Problems, suggest
from configs.findings import Effects, FindingKind, Rule, load_rules, read_rules
from configs.launch import BACKENDS, BackendName, fill_in, settings_model, take_section
from configs.load import Value, explain, layer_from_map, read_entries
from configs.read import CONFIG_ROOT, display_path, origin_of, plain, read_yaml
from configs.read import first_comment as first_comment
from configs.schema import Frozen
from configs.topologies import GIB, Topology, find_topology

type Kind = Literal["cases", "models", "targets", "comparisons", "tolerances", "comparability"]
type Named = tuple[Kind, str, tuple[str | int, ...]]  # a name in a file of configs, and its place there
Trainer = Literal["maxview", "maxtext", "command"]
Start = Literal["own", "shared"]
BY_DEVICE = ("step_time_s", "step_cpu_time_s")  # if a set lacks them, configs/noise.yml applies

SINGULAR: Mapping[Kind, str] = {
    "cases": "case",
    "models": "model",
    "targets": "target",
    "comparisons": "comparison",
    "tolerances": "set of tolerances",
    "comparability": "set of findings",
}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_NAMES = "a name begins with a letter or digit and has only letters, digits, '.', '_' and '-', at most 64"


def _check_name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError(_NAMES)
    return text


def tolerance_names() -> tuple[str, ...]:
    """Return the names that a set of tolerances may contain: the required ones (in `default`) and the optional ones."""
    return *BY_DEVICE, *read_yaml(find("tolerances", "default"))


def _check_tolerance(name: str) -> str:
    known = tolerance_names()
    if name not in known:
        raise ValueError(f"unknown metric '{name}'{suggest(name, known)}; there are: {', '.join(known)}")
    return name


Name = Annotated[str, AfterValidator(_check_name)]
ToleranceName = Annotated[str, AfterValidator(_check_tolerance)]
Slice = Annotated[str, AfterValidator(lambda name: find_topology(name).name)]
Count = Annotated[int, Field(ge=1, strict=True)]  # strict: `true` is not a number
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Size = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]


class Arm(Frozen):
    """One side of a comparison: a name, and its declared differences from the other side.

    `ref`: the trainer's branch, tag or commit, from `repository`. `packages` (such as `jax==0.11.0`): install them in
    an environment of its own; `python`: use an existing environment; `image`: for targets that run images. `trainer`
    and `command` (of a custom trainer) override the comparison's.
    """

    name: Name
    set: dict[str, Any] = {}
    trainer: Trainer | None = None
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
    """Two arms × cases × repeats on a target, with tolerances. `question` is the file's first comment."""

    name: Name
    question: str
    trainer: Trainer
    target: Name
    cases: Annotated[tuple[Name, ...], Field(min_length=1)]
    repeats: Annotated[Count, Field(le=100)]
    tolerances: Name
    comparability: Name = "default"  # the set of effects of findings on the verdict
    findings: dict[str, Any] = {}  # exceptions from that set; configs/findings.py reads them
    allow: dict[ToleranceName, Annotated[str, Field(min_length=1)]] = {}  # rows that may change, and why
    arms: tuple[Arm, ...]
    set: dict[str, Any] = {}
    repository: Annotated[str, Field(min_length=1)] | None = None  # of the refs; maxview's default: its checkout
    command: CommandTemplate | None = None  # of both arms, if their trainer is custom
    explain: Literal["auto", "off"] = "auto"  # explain the difference of the arms once, if they differ
    # shared: the second arm starts with the first one's weights, moments and batches. By default only MaxText's two
    # implementations share their start, because they draw different weights from one seed
    start: Start | None = None

    @model_validator(mode="after")
    def _check_arms(self) -> Self:
        names = [arm.name for arm in self.arms]
        if len(names) != 2 or names[0] == names[1]:
            raise ValueError(f"arms must be two with different names, not {', '.join(names) or 'none'}")
        trainers = [self.trainer_of(arm) for arm in self.arms]
        # arms of MaxText may be a release and a commit
        if trainers == ["maxview", "maxview"] and (self.arms[0].ref is None) != (self.arms[1].ref is None):
            raise ValueError("either both arms have a ref or none")
        if self.repository and not any(arm.ref for arm in self.arms):
            raise ValueError("a repository is only read for arms that have a ref")
        for arm, trainer in zip(self.arms, trainers, strict=True):
            # an image with MaxText still needs the packages here: its keys are read on this machine
            if arm.image and (arm.packages or arm.python) and trainer == "maxview":
                raise ValueError(f"{arm.name}: set at most one of packages, python and image")
            if trainer == "maxtext" and arm.ref and not (arm.repository or self.repository):
                raise ValueError(f"{arm.name}: say where the ref of MaxText is, with `repository:`")
        return self

    @model_validator(mode="after")
    def _check_commands(self) -> Self:
        for arm in self.arms:
            command = self.command_of(arm)
            if self.trainer_of(arm) != "command":
                if arm.command is not None:
                    raise ValueError(f"{arm.name}: a command is only run for `trainer: command`")
                continue
            if command is None:
                raise ValueError(f"{arm.name}: say with `command:` how its trainer is started")
            if (command.folder is None) == (arm.ref is None):
                raise ValueError(f"{arm.name}: set exactly one of ref and command.folder: where its program is")
            if arm.ref and not (arm.repository or self.repository):
                raise ValueError(f"{arm.name}: say where its ref is, with `repository:`")
        if self.command is not None and not self.has_command:
            raise ValueError("a command is only run for `trainer: command`")
        return self

    def command_of(self, arm: Arm) -> CommandTemplate | None:
        """Return how an arm's custom trainer is started; None for other trainers."""
        return (arm.command or self.command) if self.trainer_of(arm) == "command" else None

    def trainer_of(self, arm: Arm) -> Trainer:
        """Return the trainer of an arm."""
        return arm.trainer or self.trainer

    @property
    def has_command(self) -> bool:
        """Whether an arm has a custom trainer."""
        return any(self.trainer_of(arm) == "command" for arm in self.arms)

    @property
    def shares_start(self) -> bool:
        """Whether the second arm starts with the first one's state."""
        maxtext = {self.trainer_of(arm) for arm in self.arms} == {"maxtext"}
        implementations = {arm.set.get("pure_nnx") for arm in self.arms} == {False, True}
        return self.start == "shared" or (self.start is None and maxtext and implementations)

    @property
    def has_refs(self) -> bool:
        """Whether the arms are versions of a trainer from a repository."""
        return all(arm.ref is not None for arm in self.arms)


class Target(Frozen):
    """A target of runs: the launcher, the devices, a model that fits them, and the environment of the process.

    `environment`: variables to set. `pass_on`: further variables of the caller, besides those of
    `configs/environment.py`, that a local trainer gets; it has no other credentials. `wrap`: the command that executes
    a local trainer, such as `[unshare, --user, --net, --]`.

    `launch`: settings of the backend, in which `${NAME}` is an environment variable; in the file, the section that is
    named like the backend. Their values are checked when a run is planned for the target.
    """

    name: Name
    backend: BackendName
    devices: Count
    topology: Slice | None = None  # for ahead-of-time compiles, of configs/topologies.py
    memory_gib: Size | None = None  # of each device; omit for CPUs and for targets with a topology
    dollars_per_chip_hour: Size | None = None  # for the cost of further runs
    model: Name
    time_limit_s: Count
    log_limit_mb: Count = 10_000  # a local run with a larger log is stopped
    environment: dict[str, str] = {}
    pass_on: tuple[Variable, ...] = ()
    wrap: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    set: dict[str, Any] = {}
    launch: dict[str, Any] = {}

    _take_section = model_validator(mode="before")(take_section)

    @model_validator(mode="after")
    def _check_settings(self) -> Self:
        if not self.trains_here and (self.pass_on or self.wrap):
            raise ValueError("pass_on and wrap are for trainers on this machine (backend local)")
        if self.topology is not None:
            self._check_topology(find_topology(self.topology))
        own = [name for name in self.pass_on if is_own(name)]
        if own:
            raise ValueError(f"pass_on: {', '.join(own)} is maxview's own, which no trainer gets")
        return self

    def _check_topology(self, topology: Topology) -> None:
        if topology.devices != self.devices:
            raise ValueError(f"topology {topology.name} has {topology.devices} devices, not {self.devices}")
        if self.memory_gib is not None:
            raise ValueError("a topology knows its memory: leave memory_gib out")

    @property
    def trains_here(self) -> bool:
        """Whether its trainers are processes of this machine, with its files and the caller's variables."""
        return settings_model(self.backend).trains_here

    @property
    def plays_logs(self) -> bool:
        """Whether it replays logs, of any machine, instead of training."""
        return issubclass(settings_model(self.backend), LogSettings)

    @property
    def hires_chips(self) -> bool:
        """Whether a run occupies a slice that is paid for."""
        return settings_model(self.backend).hires_chips

    @property
    def device_memory_gib(self) -> float | None:
        """Memory of each device in GiB, if the target states it."""
        return find_topology(self.topology).hbm_bytes / GIB if self.topology else self.memory_gib

    @property
    def platform(self) -> str | None:
        """JAX's platform there, if the target states it."""
        if self.plays_logs:
            return None
        named = self.environment.get("JAX_PLATFORMS", "").partition(",")[0] or self.set.get("hardware")
        return "gpu" if named in ("cuda", "rocm") else named

    @property
    def passed_on(self) -> tuple[str, ...]:
        """Patterns of the caller's variables that a trainer gets; none in a pod."""
        return (*PASSED_ON, *self.pass_on) if self.trains_here else ()

    def launch_settings(self, environ: Mapping[str, str]) -> Settings:
        """Return the backend's settings with environment variables replaced. Raises ConfigError."""
        return fill_in(self.launch, settings_model(self.backend), f"configs/targets/{self.name}.yml", environ)


class Tolerance(Frozen):
    """The largest difference that counts as the same, and why: relative to the baseline, or absolute in the unit.

    `least`: for a noisy metric, the smallest difference that is reported when it is certain, in the same unit.
    """

    relative: Size | None = None
    absolute: Size | None = None
    why: Annotated[str, Field(min_length=1)]
    least: Size | None = None
    least_why: Annotated[str, Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if (self.relative is None) == (self.absolute is None):
            raise ValueError("set exactly one of relative and absolute")
        if (self.least is None) != (self.least_why is None):
            raise ValueError("set least and least_why together")
        if self.least is not None and self.least > max(self.relative or 0.0, self.absolute or 0.0):
            raise ValueError(f"least ({self.least:g}) must not be more than the tolerance")
        return self


def list_names(kind: Kind, *, root: Path = CONFIG_ROOT) -> tuple[str, ...]:
    """Return the names in one folder of configs."""
    return tuple(sorted(path.stem for path in (root / kind).glob("*.yml")))


def find(kind: Kind, name: str, *, root: Path = CONFIG_ROOT) -> Path:
    """Return the file of a name. Raises ConfigError with a suggestion if there is none."""
    names = list_names(kind, root=root)
    if name in names:
        return root / kind / f"{name}.yml"
    shape = "" if _NAME.fullmatch(name) else f"; {_NAMES}"
    raise ConfigError(
        [f"unknown {SINGULAR[kind]} '{name}'{suggest(name, names)}{shape}; there are: {', '.join(names)}"]
    )


def _load[T: BaseModel](path: Path, data: CommentedMap, model: type[T], **given: Any) -> T:
    """Return the record in a file; the fields in `given` cannot be set by the file."""
    fields = tuple(name for name in model.model_fields if name not in given)
    if model is Target:  # in a file, the settings' key is the backend's name
        fields = (*(name for name in fields if name != "launch"), *BACKENDS)
    known = (*fields, *Arm.model_fields) if model is Comparison else fields
    problems = [
        f"{origin_of(data, path, (key,))}: unknown key '{key}'{suggest(str(key), fields)}"
        for key in data
        if key not in fields
    ]
    try:
        record = model.model_validate({k: v for k, v in plain(data).items() if k in fields} | given)
    except ValidationError as error:
        problems += explain(error, lambda keys: origin_of(data, path, keys), known)
        raise ConfigError(problems) from error
    if problems:
        raise ConfigError(problems)
    return record


def find_missing(named: Sequence[Named], data: CommentedMap, path: Path, root: Path) -> Iterator[str]:
    """Yield a problem, with its line in the file `path`, for every named file that does not exist."""
    for kind, name, keys in named:
        try:
            find(kind, name, root=root)
        except ConfigError as error:
            yield from (f"{origin_of(data, path, keys)}: {line}" for line in error.problems)


def load_comparison(name: str, *, root: Path = CONFIG_ROOT) -> Comparison:
    """Return a comparison by name, after checking that everything it names exists."""
    path = find("comparisons", name, root=root)
    data = read_yaml(path)
    question = first_comment(path)
    problems = Problems()
    if not question:
        problems.lines.append(f"{display_path(path)}:1: begin with a comment that says what is compared")
    spec = problems.attempt(lambda: _load(path, data, Comparison, name=name, question=question))
    problems.attempt(lambda: _own_rules(data, path))
    named: list[Named] = []
    if spec is not None:
        named += [("targets", spec.target, ("target",)), ("tolerances", spec.tolerances, ("tolerances",))]
        named += [("comparability", spec.comparability, ("comparability",))]
        named += [("cases", case, ("cases", index)) for index, case in enumerate(spec.cases)]
    problems.lines += find_missing(named, data, path, root)
    problems.raise_any()
    assert spec is not None  # else there was a problem
    return spec


def load_target(name: str, *, root: Path = CONFIG_ROOT) -> Target:
    """Return a target by name."""
    path = find("targets", name, root=root)
    return _load(path, read_yaml(path), Target, name=name)


def load_tolerances(name: str, *, root: Path = CONFIG_ROOT) -> dict[str, Tolerance]:
    """Return the tolerance of every judged metric."""
    path = find("tolerances", name, root=root)
    required = [*read_yaml(find("tolerances", "default"))]
    return read_entries(read_yaml(path), path, Tolerance, tolerance_names(), "metric", required=required)


def _own_rules(data: CommentedMap, path: Path) -> dict[FindingKind, Rule]:
    return read_rules(data["findings"], path) if "findings" in data else {}


def load_effects(name: str = "default", comparison: str | None = None, *, root: Path = CONFIG_ROOT) -> Effects:
    """Return the effect of each finding, from the set `name` and the comparison's `findings:`. Raises ConfigError."""
    rules = load_rules(find("comparability", name, root=root))
    if comparison is not None:
        path = find("comparisons", comparison, root=root)
        rules |= _own_rules(read_yaml(path), path)
    return {kind: rule.effect for kind, rule in rules.items()}


def load_layer(kind: Kind, name: str, layer: str, *, root: Path = CONFIG_ROOT) -> dict[str, Value]:
    """Return the config values of a model or case file."""
    path = find(kind, name, root=root)
    return layer_from_map(read_yaml(path), path, layer)


def set_layer(kind: Kind, name: str, layer: str, *, root: Path = CONFIG_ROOT) -> dict[str, Value]:
    """Return the config values under `set:` of a checked target or comparison file."""
    path = find(kind, name, root=root)
    data = read_yaml(path).get("set")
    return layer_from_map(data, path, layer) if data else {}


def arm_layer(comparison: str, arm: str, *, root: Path = CONFIG_ROOT) -> dict[str, Value]:
    """Return the config values set by one arm. Raises ConfigError with a suggestion for an unknown arm."""
    path = find("comparisons", comparison, root=root)
    arms = {item["name"]: item for item in read_yaml(path)["arms"]}
    if arm not in arms:
        names = tuple(arms)
        raise ConfigError([f"unknown arm '{arm}' of {comparison}{suggest(arm, names)}; there are: {', '.join(names)}"])
    data = arms[arm].get("set")
    return layer_from_map(data, path, "arm") if data else {}
