"""maxview's own trainer, installed or in a checkout: its digests, its commands and the files that it reads."""

import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Self

from configs.checks import Devices
from configs.comparison import Arm, Target
from configs.custom_trainer import CommandTemplate
from configs.data_checks import find_data_problems
from configs.errors import Problems
from configs.installed import source_digest, trainer_commit
from configs.kernels import describe_attention
from configs.load import ConfigValue
from configs.read import CONFIG_ROOT, read_yaml
from configs.schema import TrainConfig
from configs.topologies import Topology
from tasks.records.plan import Invocation, RunFiles, RunPlan
from tasks.resolve.checkout import CheckoutError
from tasks.resolve.code_digest import digest_trainer
from tasks.resolve.own_clone import HERE, TRAINER_FILES
from tasks.resolve.python_environments import PROJECT, SoftwareError, find_python, unmet_requirements
from tasks.resolve.trainers.trainer import (
    COMPILE_ENVIRONMENT,
    CONFIG_IN_POD,
    PYTHON_IN_POD,
    SOURCE,
    Checkout,
    Trainer,
    choose_python,
    versions_of,
)

CONFIG = "config.yml"  # a run's config, in the run's folder
# Paths that can affect a run: Python files below CODE, and all of DATA.
CODE = ("model/", "configs/")
DATA = ("configs/base.yml", "configs/models/", "configs/cases/", "configs/data/")


class MaxviewTrainer(Trainer):
    """maxview's own trainer."""

    name = "maxview"
    title = "maxview's"
    imports = ("model.train.__main__", "flax.linen", "flax.nnx", "orbax.checkpoint")
    reports = True
    has_kernels_of_key = True

    @classmethod
    def find(cls, arm: Arm, template: CommandTemplate | None, cache: Path, checkout: Checkout | None) -> Self:
        """Return the trainer in the checkout, or else the one that is installed with maxview."""
        folder, ref = (checkout.folder, checkout.ref) if checkout else (HERE, None)
        missing = [names[0] for names in TRAINER_FILES if not any((folder / name).is_file() for name in names)]
        if checkout and missing:
            where = f"{checkout.repository}: '{checkout.ref.name}' ({checkout.ref.sha})"
            raise CheckoutError(f"{where} holds no trainer: {', '.join(missing)} missing")
        python, software = choose_python(arm, lambda: find_python(arm.packages, folder, cache))
        python = python or sys.executable
        commit, dirty = (ref.sha, False) if ref else trainer_commit(folder)
        versions = versions_of(python) | {SOURCE: source_digest(folder)[:12]}
        found = cls(commit=commit, dirty=dirty, versions=versions, python=python, software=software)
        if ref is None:
            return found
        if not software and (unmet := unmet_requirements(folder, versions)):
            raise SoftwareError(
                f"'{ref.name}' requires {', '.join(unmet)}: give the arm its own packages "
                f"(compare --with {arm.name}:{PROJECT}, or packages: ['{PROJECT}'] in the comparison's file)"
            )
        return found.replace(folder=str(folder), code=digest_trainer(folder))

    @classmethod
    def find_problems(cls, config: TrainConfig, target: Target, devices: Devices) -> Iterator[str]:
        """Yield the problems of a config on a target, and of its data if the target uses this machine's files."""
        yield from super().find_problems(config, target, devices)
        if target.shares_files:
            yield from find_data_problems(config)

    @classmethod
    def is_read(cls, path: str, named: frozenset[str] = frozenset()) -> bool:
        return (path.endswith(".py") and path.startswith(CODE)) or path.startswith(DATA)

    def known_keys(
        self, values: Mapping[str, ConfigValue], arm: str, problems: Problems, root: Path
    ) -> frozenset[str] | None:
        """Return the keys in the checkout's base.yml; None without a checkout."""
        if self.folder is None:
            return None
        read = problems.attempt(partial(read_yaml, Path(self.folder) / "configs" / "base.yml"))
        if read is None:
            return None
        problems.lines += [
            f"{value.origin}: '{key}' is no key of {arm}'s trainer ('{self.ref}', {self.commit})"
            for key, value in values.items()
            if key not in read and value.layer != "base"
        ]
        return frozenset(read)

    @property
    def config_folder(self) -> Path | None:
        return Path(self.folder) / "configs" if self.folder is not None else None

    @property
    def full_title(self) -> str:
        """The name and the commit, or the version as the user named it."""
        if self.version is not None:
            return self.version.short
        commit = f" {self.commit[:9]}" if self.commit else ""
        return f"maxview{commit}{' with uncommitted changes' if self.dirty else ''}"

    def invoke(self, config: TrainConfig, directory: Path, *, in_pod: bool, alone: bool) -> Invocation:
        python, file = (PYTHON_IN_POD, CONFIG_IN_POD) if in_pod else (self.python, str(directory / CONFIG))
        return Invocation(argv=(python, "-m", "model.train", file))

    def invoke_compile(
        self, config: TrainConfig, topology: Topology, directory: Path, programs: Path | None = None
    ) -> Invocation:
        out = ("--out", str(directory), "--topology", topology.name)
        argv = (self.python, "-m", "model.compile", str(directory / CONFIG), *out)
        # passed as a variable, because the trainer at an older commit would reject an unknown option
        own = {"MAXVIEW_PROGRAMS": str(programs)} if programs else {}
        return Invocation(argv=argv, environment=COMPILE_ENVIRONMENT | own, files=RunFiles(checkpoints=None))

    @classmethod
    def default_folder(cls, plan: RunPlan) -> str | Path:
        return CONFIG_ROOT.parent

    @classmethod
    def describe_attention(cls, plan: RunPlan) -> str | None:
        if plan.config.keys() != TrainConfig.model_fields.keys():
            return None
        return describe_attention(TrainConfig.model_validate(plan.config))


TRAINER = MaxviewTrainer
