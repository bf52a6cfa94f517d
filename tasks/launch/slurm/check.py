"""Finds the obstacles to runs on a SLURM cluster, each with its remedy."""

from collections.abc import Iterator
from pathlib import Path

from configs.backends.slurm import Slurm
from tasks.launch.backend import WITHOUT, LaunchError
from tasks.launch.patience import NotAnswering
from tasks.launch.slurm.client import explain_refusal, last_line, reports_outage, run_slurm
from tasks.launch.slurm.script import submit_options


def find_obstacles(settings: Slurm) -> Iterator[str]:
    """Yield the obstacles to a run in the partition, each with its remedy; asks SLURM for a job without submitting it.

    The job's time limit is the shortest one, because these settings do not hold the target's. Raises LaunchError.
    """
    options = submit_options(settings, "maxview-check", Path("/dev/null"), 60)
    code, _, complaint = run_slurm(["sbatch", "--test-only", *options], "#!/bin/sh\n")
    if reports_outage(complaint):
        raise NotAnswering(f"SLURM does not answer: {last_line(complaint)}")
    if code:
        raise LaunchError(explain_refusal(complaint))
    check_pyxis(settings)
    code, _, complaint = run_slurm(["sacct", "-X", "-n", "-S", "now"])
    if code:
        yield f"sacct does not answer ({last_line(complaint)}){WITHOUT}the end of a job is unknown 5 minutes after it"


def check_pyxis(settings: Slurm) -> None:
    """Raise LaunchError if the runs need containers and SLURM has no pyxis, which starts them."""
    if settings.image is not None and "--container-image" not in run_slurm(["srun", "--help"])[1]:
        raise LaunchError("srun has no --container-image: this cluster has no pyxis, leave `image` out of the target")
