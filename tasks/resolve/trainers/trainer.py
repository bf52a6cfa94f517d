"""The trainer of an arm, `Trainer`: its source, and all that depends on the kind of program that trains.

An arm is one of the two compared versions. A subclass describes one kind; the package lists them. No other
code asks for the kind of a trainer.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

from configs.checks import Devices, find_problems
from configs.comparison import Arm, Target
from configs.custom_trainer import CommandTemplate
from configs.errors import ConfigError, Problems
from configs.frozen import Frozen
from configs.installed import PLUGINS, installed_versions
from configs.load import ConfigValue
from configs.schema import TrainConfig
from configs.topologies import Topology
from tasks.records.plan import CodeVersion, Commit, Invocation, RunPlan
from tasks.resolve.python_environments import ask_python
from tasks.resolve.refs import ResolvedRef

SOURCE = "trainer source"  # key in `versions`: the digest of the trainer's own source
PYTHON_IN_POD = "python"
CONFIG_IN_POD = "/tmp/maxview/config.yml"  # a run's config, in a pod; the pod's command writes this file
# For machines without a TPU: several processes may load libtpu at once, and none queries the TPU metadata server.
COMPILE_ENVIRONMENT = {"JAX_PLATFORMS": "cpu", "TPU_SKIP_MDS_QUERY": "1", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}


class Checkout(NamedTuple):
    """The clean checkout of an arm's ref."""

    folder: Path
    ref: ResolvedRef
    repository: str  # folder or address of the repository with the ref


class Trainer(Frozen):
    """The trainer of an arm: its source, its package versions and the Python that runs it."""

    name: ClassVar[str]  # as a comparison's file names it
    title: ClassVar[str]  # in messages
    # Whether a run reports in its program.json: its program, its weights, its commit, and the restore of the other
    # arm's checkpoint (`--continue-from`).
    reports: ClassVar[bool] = False
    loads_full_state: ClassVar[bool] = False  # whether its command restores the checkpoint `load_full_state_path=…`
    has_kernels_of_key: ClassVar[bool] = False  # whether its key `hardware`, not its devices, chooses the kernels
    address: ClassVar[str] = ""  # of its public repository; empty: maxview's clone, or none
    # imported by its command, its entry first; a process that has imported them can be forked. Empty: it cannot
    imports: ClassVar[tuple[str, ...]] = ()
    release: ClassVar[tuple[str, ...]] = ()  # packages for a checkout for which none are named

    commit: str | None  # SHA; None: unknown
    dirty: bool  # there are uncommitted changes
    versions: dict[str, str]  # package → version; SOURCE → digest
    ref: str | None = None  # as the user named the commit, or the name of a working tree; None: no ref
    tree: str = ""  # git's hash of the checkout's files; empty: no ref
    version: CodeVersion | None = None  # of the checkout, for display; None: no ref
    repository: str | None = None  # folder or address with the ref; None: no ref, or maxview's checkout
    commits: tuple[Commit, ...] = ()  # ancestors of `commit` that the other arm lacks
    # The checkout, or the folder in it from which MaxText is imported. None: the trainer is installed, or is a custom
    # program in its own folder.
    folder: str | None = None
    code: str = ""  # `digest_trainer` of `folder`; empty: unknown
    python: str = sys.executable
    software: tuple[str, ...] = ()  # declared differences from the other arm, e.g. "jax==0.11.0"

    @classmethod
    def find(cls, arm: Arm, template: CommandTemplate | None, cache: Path, checkout: Checkout | None) -> Self:
        """Return the trainer of an arm. Its environment is built in the folder `cache` from the arm's `packages`.

        template: of a custom command. checkout: of the arm's ref. Raises ConfigError, CheckoutError, and SoftwareError
        if an environment cannot be built.
        """
        raise NotImplementedError

    @classmethod
    def find_problems(cls, config: TrainConfig, target: Target, devices: Devices) -> Iterator[str]:
        """Yield the problems of a config on a target, before the trainer is known in detail."""
        yield from find_problems(config, devices)

    @classmethod
    def is_read(cls, path: str, named: frozenset[str] = frozenset()) -> bool:
        """Return whether a file of a commit can affect a run. named: words of a custom command."""
        raise NotImplementedError

    @property
    def config_folder(self) -> Path | None:
        """The checkout's folder of config files like maxview's own; None if the trainer has none."""
        return None

    def known_keys(
        self, values: Mapping[str, ConfigValue], arm: str, problems: Problems, root: Path
    ) -> frozenset[str] | None:
        """Return the config keys that this trainer has; None if its command checks them.

        Adds to `problems` each other key that the user set. root: the folder of the config files.
        """
        return None

    def check_target(self, target: Target, arm: str, *, in_pod: bool) -> None:
        """Raise ConfigError if the trainer cannot run on the target, e.g. if JAX lacks the plugin for its devices."""
        kind = target.environment.get("JAX_PLATFORMS", "")
        plugins = PLUGINS.get(kind)
        if in_pod or plugins is None or self.versions.keys() & set(plugins.values()):
            return
        start = f"{target.name}: JAX for it ({' or '.join(plugins.values())}) is not installed"
        if self.python == sys.executable:
            raise ConfigError([f"{start}: uv sync --extra {kind}"])
        extras = " or ".join(f"jax[{extra}]" for extra in plugins)
        raise ConfigError([f"{start} for '{arm}': {self.python} needs {extras}"])

    def invoke(self, config: TrainConfig, directory: Path, *, in_pod: bool, alone: bool) -> Invocation:
        """Return the invocation that trains `config` and writes into `directory`, a folder with the run's name.

        in_pod: the command runs in an image. alone: the run has a single process. Raises ConfigError with values that
        this trainer does not support.
        """
        raise NotImplementedError

    def invoke_compile(
        self, config: TrainConfig, topology: Topology, directory: Path, programs: Path | None = None
    ) -> Invocation:
        """Return the invocation that compiles the step and writes the results, such as `compile.json`, to `directory`.

        programs: folder with the cache of compiled programs, if the trainer has one. Raises ConfigError, e.g. if this
        trainer cannot compile ahead of time.
        """
        raise NotImplementedError

    @property
    def own_keys(self) -> frozenset[str]:
        """The config keys of this trainer, if it has other keys than maxview's."""
        return frozenset()

    @property
    def only_values(self) -> dict[str, Any]:
        """Config keys for which this version supports one value, and that value."""
        return {}

    @property
    def full_title(self) -> str:
        """The name and the version in messages."""
        return self.title

    @property
    def facts(self) -> dict[str, Any]:
        """Settings that enter a run's identity, besides its config, versions and target."""
        return {}

    @property
    def start_folder(self) -> str | None:
        """The folder of a custom program, in which it starts; None for other trainers."""
        return None

    @classmethod
    def default_folder(cls, plan: RunPlan) -> str | Path:
        """Return the folder in which a run without checkout or start folder starts. Python imports from it first."""
        return plan.directory

    @classmethod
    def name_version(cls, plan: RunPlan, commit: str | None) -> str:
        """Return the version for display: the commit, else the package's or source's version."""
        return commit[:9] if commit else "no commit"

    @classmethod
    def label_run(cls, plan: RunPlan, commit: str | None) -> str:
        """Return the name of a run's arm and its version, for display."""
        if plan.version is not None and plan.version.changed and not plan.aa:
            return plan.version.name  # git knows no commit of it
        return f"{plan.arm if plan.aa else plan.ref or plan.arm} · {cls.name_version(plan, commit)}"

    @classmethod
    def describe_attention(cls, plan: RunPlan) -> str | None:
        """Return the attention kernel of a run, and the reason for it; None if unknown."""
        return None


def versions_of(python: str) -> dict[str, str]:
    """Return the package versions of the interpreter `python`, by name. Raises ConfigError if it cannot be queried."""
    if python == sys.executable:
        return installed_versions()
    return ask_python(python).versions


def choose_python(arm: Arm, build: Callable[[], str]) -> tuple[str | None, tuple[str, ...]]:
    """Return the arm's interpreter (None: the arm names none) and its declared software differences, as texts.

    build: returns the interpreter of an environment with the arm's packages.
    """
    python, software = None, arm.packages
    if arm.packages:
        python = build()
    elif arm.python:
        # Links are not resolved: a virtual environment's Python is a symbolic link to one outside of the environment.
        python, software = str(Path(arm.python).expanduser().absolute()), (f"python {arm.python}",)
    return python, (f"image {arm.image}",) if arm.image else software
