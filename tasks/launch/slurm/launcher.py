"""The launcher of the backend `slurm`."""

import shlex
from typing import Any

from tasks.launch.backend import Backend, Launcher
from tasks.launch.slurm.check import find_obstacles
from tasks.launch.slurm.client import CAUSE_KINDS
from tasks.records.plan import RunPlan
from tasks.store.directories import RunDirectory


def load() -> Backend[Any]:
    """Return the backend."""
    from tasks.launch.slurm.jobs import OnSlurm  # imports the module that imports launchers

    return OnSlurm()


def write_manifest(plan: RunPlan, directory: RunDirectory) -> str:
    """Return the batch script of the run's first start."""
    from tasks.launch.slurm.jobs import name_job, settings_of
    from tasks.launch.slurm.script import submit_options, write_script

    settings, output = settings_of(plan), directory.path / "slurm-1.txt"
    shebang, *lines = write_script(plan, settings, output, ()).splitlines(keepends=True)
    options = submit_options(settings, name_job(plan), output, plan.time_limit_s)
    return "".join([shebang, *(f"#SBATCH {shlex.quote(word)}\n" for word in options), *lines])


LAUNCHER = Launcher(load=load, find_obstacles=find_obstacles, death_kinds=CAUSE_KINDS, manifest=write_manifest)
