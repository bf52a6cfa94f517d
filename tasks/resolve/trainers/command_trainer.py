"""A custom program as a trainer: its command from a template, its source's digest, and the files that it may read."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Self

from configs.checks import Devices
from configs.comparison import Arm, Target
from configs.custom_trainer import CommandTemplate
from configs.errors import ConfigError, Problems
from configs.installed import digest_files, trainer_commit
from configs.load import ConfigValue
from configs.names import PROJECT
from configs.read import read_yaml
from configs.schema import TrainConfig
from configs.topologies import Topology
from tasks.records.plan import WORK, Invocation, RunFiles, RunPlan
from tasks.resolve.python_environments import find_python
from tasks.resolve.trainers.maxtext import show_value
from tasks.resolve.trainers.trainer import PYTHON_IN_POD, SOURCE, Checkout, Trainer, choose_python, versions_of

IN_POD = {"checkout": ".", "python": PYTHON_IN_POD}  # values of {checkout} and {python} in a pod
ENVIRONMENT = "pyvenv.cfg"  # file that marks a virtual environment
PROSE = (".md", ".rst")


class CustomTrainer(Trainer):
    """A custom program: its command template and its folder. `python` replaces the template's {python}."""

    name = "command"
    title = "the command"

    template: CommandTemplate
    program: str  # the program's folder: the checkout, or the template's folder

    @classmethod
    def find(cls, arm: Arm, template: CommandTemplate | None, cache: Path, checkout: Checkout | None) -> Self:
        """Return the program in the checkout or in the template's folder. Its Python is by default maxview's own."""
        assert template is not None  # `check_arm` has checked it
        folder = checkout.folder if checkout else Path(template.folder or "").expanduser().absolute()
        if not folder.is_dir():
            raise ConfigError([f"{arm.name}: command.folder: {folder} is no folder"])
        python, software = choose_python(arm, lambda: find_python(arm.packages, folder, cache))
        python = python or sys.executable
        if arm.command is not None:  # the arm's own command is a declared difference
            software = (*software, f"command {' '.join(template.argv)}")
        # A command without `{python}` uses an interpreter that is unknown here, with unknown package versions.
        versions = versions_of(python) if "python" in template.names else {}
        commit, dirty = (None, False) if checkout else trainer_commit(folder, ())
        return cls(
            commit=commit,
            dirty=dirty,
            versions=versions | {SOURCE: digest_program(folder, template.argv)},
            folder=str(folder) if checkout else None,
            python=python,
            software=software,
            template=template,
            program=str(folder),
        )

    @classmethod
    def find_problems(cls, config: TrainConfig, target: Target, devices: Devices) -> Iterator[str]:
        """Yield nothing, because the limits of a custom program are unknown."""
        return iter(())

    @classmethod
    def is_read(cls, path: str, named: frozenset[str] = frozenset()) -> bool:
        """Return whether a file of a commit can affect a run: all but prose and maxview's may, `named` files always."""
        folders = (".github/", "docs/", f"{PROJECT}/")
        prose = PurePosixPath(path).suffix in PROSE or path.startswith(folders)
        return path in named or not prose

    def known_keys(
        self, values: Mapping[str, ConfigValue], arm: str, problems: Problems, root: Path
    ) -> frozenset[str] | None:
        """Return `steps` and the keys with a placeholder.

        A program trains its own model, so its missing keys are no problem if a model's or target's file sets them, or
        if they have the value of base.yml.
        """
        taken, base = self.template.names, read_yaml(root / "base.yml")
        if self.template.ended:
            taken |= {"steps"}
        problems.lines += [
            f"{value.origin}: '{key}' has no place in the command of {arm}: write {{{key}}} into one of its arguments"
            for key, value in values.items()
            if key not in taken and value.layer not in ("base", "target", "model") and value.value != base[key]
        ]
        return taken | {"steps"}

    def check_target(self, target: Target, arm: str, *, in_pod: bool) -> None:
        twice = sorted(self.template.environment.keys() & target.environment.keys())
        if twice:
            place = f"configs/targets/{target.name}.yml"
            raise ConfigError([f"command.environment sets {', '.join(twice)}, and so does {place}: keep one of them"])

    def invoke(self, config: TrainConfig, directory: Path, *, in_pod: bool, alone: bool) -> Invocation:
        """Return the template with the run's values in place of the placeholders."""
        values = {key: show_value(value) for key, value in config.model_dump().items()}
        program = str(directory / WORK) if self.template.copied else self.program
        values |= {"run_name": directory.name, "out": str(directory), "checkout": program, "python": self.python}
        filled = self.template.fill(values | (IN_POD if in_pod else {}))
        copy_at = (filled.within or ".") if filled.copied else None
        files = RunFiles(
            checkpoints=filled.checkpoints, metrics=filled.metrics, resume=filled.resume, copy_at=copy_at,
            end_after=config.steps if filled.ended else None,
        )  # fmt: skip
        return Invocation(argv=filled.argv, environment=filled.environment, files=files)

    def invoke_compile(
        self, config: TrainConfig, topology: Topology, directory: Path, programs: Path | None = None
    ) -> Invocation:
        raise ConfigError(["a custom command cannot be compiled ahead of time: only maxview's and MaxText's can"])

    @property
    def facts(self) -> dict[str, Any]:
        """The template without its folder, which does not decide what the program does."""
        return {"command": self.template.model_dump(mode="json", exclude={"folder"})}

    @property
    def start_folder(self) -> str | None:
        return self.program

    @classmethod
    def name_version(cls, plan: RunPlan, commit: str | None) -> str:
        if commit is None and SOURCE in plan.versions:
            return f"source {plan.versions[SOURCE]}"
        return super().name_version(plan, commit)


def digest_program(folder: Path, argv: Sequence[str]) -> str:
    """Return a hash over a program's Python files and the files that its `argv` names.

    Python files in virtual environments and hidden folders only count if `argv` names them.
    """
    named = {folder / word for word in argv if (folder / word).is_file()}
    return digest_files(folder, named.union(_python_files(folder)))[:12]


def _python_files(folder: Path) -> Iterator[Path]:
    for root, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name[0] != "." and not Path(root, name, ENVIRONMENT).exists()]
        yield from (Path(root, name) for name in files if name.endswith(".py"))


TRAINER = CustomTrainer
