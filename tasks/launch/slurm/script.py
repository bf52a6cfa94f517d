"""Builds the batch script of a run and the options of its sbatch command. Every word from a config is quoted."""

import math
import os
import shlex
import sys
from pathlib import Path

from configs.backends.slurm import Slurm
from configs.environment import pass_on
from tasks.launch import supervise
from tasks.launch.local.process_group import LOG_LIMIT_MB, build_environment, start_folder
from tasks.records.plan import RunPlan
from tasks.resolve.trainers.trainer import CONFIG_IN_POD

# The words before the trainer's command in every process of a run on several nodes; $0 is the path of the log.
# Our trainer reads JAX_*, MaxText JAX_COORDINATOR_IP, JAX_COORDINATOR_PORT, NNODES and NODE_RANK. Without
# SLURM_LOCALID JAX does not detect SLURM: it would give each process only one device, as if there were one process per
# device. The port is above those that Linux assigns. Only process 0 writes to the log.
JOIN = (
    "export JAX_COORDINATOR_IP=$SLURM_LAUNCH_NODE_IPADDR JAX_COORDINATOR_PORT=$((SLURM_JOB_ID % 4096 + 61440)) "
    "JAX_NUM_PROCESSES=$SLURM_NTASKS JAX_PROCESS_ID=$SLURM_PROCID NNODES=$SLURM_NTASKS NODE_RANK=$SLURM_PROCID; "
    'export JAX_COORDINATOR_ADDRESS="$JAX_COORDINATOR_IP:$JAX_COORDINATOR_PORT"; unset SLURM_LOCALID; '
    '[ "$SLURM_PROCID" = 0 ] || exec >>"$0.task$SLURM_PROCID" 2>&1; exec "$@"'
)


def write_script(plan: RunPlan, settings: Slurm, output: Path, extra_argv: tuple[str, ...]) -> str:
    """Return the script, which runs the trainer under maxview's supervisor. output: the file of its log."""
    own = build_environment(plan.replace(passed_on=()), os.environ)
    limits = (str(plan.time_limit_s), str(supervise.GRACE_S), str(LOG_LIMIT_MB))
    words = ["env", *(f"{name}={value}" for name, value in own.items()), sys.executable, "-I", "-S"]
    words += [supervise.__file__, *limits, *_step_words(plan, settings, output), *plan.argv, *extra_argv]
    return (
        "#!/bin/bash\n"
        f"exec >>{shlex.quote(str(output))} 2>&1\n"
        # since SLURM 22.05, srun does not inherit this option of sbatch
        "[ -z ${SLURM_CPUS_PER_TASK:-} ] || export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK\n"
        f"cd {shlex.quote(str(start_folder(plan)))} &&\n"
        f"exec {shlex.join(words)} </dev/zero\n"
    )


def _step_words(plan: RunPlan, settings: Slurm, output: Path) -> list[str]:
    """Return the words that start the trainer in every node's container; [] for one node without a container."""
    if settings.nodes == 1 and settings.image is None:
        return []
    words = ["srun", "--export=ALL", "--kill-on-bad-exit=1", f"--nodes={settings.nodes}", "--ntasks-per-node=1"]
    if settings.image is not None:
        out = str(Path(plan.directory).parent.parent)
        mounts = f"{out}:{out},{plan.directory}/config.yml:{CONFIG_IN_POD}"
        words += [f"--container-image={settings.image}", f"--container-mounts={mounts}"]
    return words if settings.nodes == 1 else [*words, "sh", "-c", JOIN, str(output)]


def submit_options(settings: Slurm, name: str, output: Path, seconds: float) -> list[str]:
    """Return the options of sbatch for a job of at most `seconds`; the target's own `extra` come first."""
    named = {"partition": settings.partition, "account": settings.account, "qos": settings.qos, "gres": settings.gres}
    return [
        *settings.extra,
        *(f"--{key}={value}" for key, value in named.items() if value is not None),
        f"--nodes={settings.nodes}",
        "--ntasks-per-node=1",
        f"--time={math.ceil(seconds / 60)}",
        f"--job-name={name}",
        f"--output={str(output).replace('%', '%%')}",
        "--open-mode=append",
        "--no-requeue",  # a run is restarted with the arguments that resume it, if no other machine has claimed it
        "--export=ALL",  # of the variables in `submit_environment`
    ]


def submit_environment(plan: RunPlan) -> dict[str, str]:
    """Return sbatch's environment, which SLURM gives to the job: the passed-on variables, and where SLURM is."""
    return pass_on(os.environ, plan.passed_on) | {
        name: value for name, value in os.environ.items() if name in ("SLURM_CONF", "SLURM_CLUSTERS")
    }
