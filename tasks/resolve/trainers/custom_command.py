"""Builds a run's command from a custom trainer's template, and hashes the program's source."""

import os
from collections.abc import Iterator
from pathlib import Path

from configs.custom_trainer import CommandTemplate
from configs.installed import digest_files
from configs.schema import Frozen, TrainConfig
from tasks.records import Invocation, RunFiles
from tasks.resolve.trainers.maxtext import show_value

IN_POD = {"checkout": ".", "python": "python"}  # values of {checkout} and {python} in a pod
ENVIRONMENT = "pyvenv.cfg"  # file that marks a virtual environment


class CustomCommand(Frozen):
    """A custom trainer: its command template, the program's folder, and the Python that replaces {python}."""

    template: CommandTemplate
    folder: str
    python: str

    def fill(self, config: TrainConfig, directory: Path, *, in_pod: bool) -> Invocation:
        """Return the invocation of a run. directory: the run's folder, whose name is the run's name."""
        values = {key: show_value(value) for key, value in config.model_dump().items()}
        values |= {"run_name": directory.name, "out": str(directory), "checkout": self.folder, "python": self.python}
        filled = self.template.fill(values | (IN_POD if in_pod else {}))
        files = RunFiles(checkpoints=filled.checkpoints, metrics=filled.metrics, resume=filled.resume)
        return Invocation(argv=filled.argv, environment=filled.environment, files=files)


def digest_program(folder: Path, template: CommandTemplate) -> str:
    """Return a hash over a program's Python files and the files that its `argv` names.

    Python files in virtual environments and hidden folders only count if `argv` names them.
    """
    named = {folder / word for word in template.argv if (folder / word).is_file()}
    return digest_files(folder, named.union(_python_files(folder)))[:12]


def _python_files(folder: Path) -> Iterator[Path]:
    for root, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name[0] != "." and not Path(root, name, ENVIRONMENT).exists()]
        yield from (Path(root, name) for name in files if name.endswith(".py"))
