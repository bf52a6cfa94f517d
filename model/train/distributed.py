"""Connects the processes that train one model together, if the environment variables describe several."""

import os
from collections.abc import Mapping

import jax

from configs.load import ConfigError
from configs.schema import TrainConfig

# see jax.distributed.initialize
COORDINATOR, COUNT, INDEX = "JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"
# set in the pods of multi-host and multi-slice TPU jobs
HOSTNAMES, MEGASCALE = "TPU_WORKER_HOSTNAMES", "MEGASCALE_COORDINATOR_ADDRESS"


def join_processes(config: TrainConfig, environ: Mapping[str, str] = os.environ) -> None:
    """Connect to the other processes of the run, if any. Must run before the first use of JAX's devices.

    On TPUs with several hosts or slices, JAX finds the other processes itself. Raises ConfigError if COORDINATOR is
    set, but COUNT and INDEX are no numbers.
    """
    if environ.get(COORDINATOR):
        missing = [name for name in (COUNT, INDEX) if not environ.get(name, "").isdigit()]
        if missing:
            raise ConfigError([f"{COORDINATOR} is set, so {' and '.join(missing)} must be numbers too"])
        jax.distributed.initialize(environ[COORDINATOR], int(environ[COUNT]), int(environ[INDEX]))
    elif config.hardware == "tpu" and ("," in environ.get(HOSTNAMES, "") or environ.get(MEGASCALE)):
        jax.distributed.initialize()


def leave_processes() -> None:
    """Wait until the other processes are done, so that they do not take this exit for a failure."""
    if jax.distributed.is_initialized():
        jax.distributed.shutdown()
