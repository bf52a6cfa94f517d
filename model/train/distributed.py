"""Turns a process into one of the several that train one model, where its environment says that there are several."""

import os
from collections.abc import Mapping

import jax

from configs.load import ConfigError
from configs.schema import TrainConfig

# JAX's own names; its documentation of jax.distributed.initialize
COORDINATOR, COUNT, INDEX = "JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"
# set in the pods of a TPU slice with several hosts, and in those of several slices
HOSTNAMES, MEGASCALE = "TPU_WORKER_HOSTNAMES", "MEGASCALE_COORDINATOR_ADDRESS"


def join_processes(config: TrainConfig, environ: Mapping[str, str] = os.environ) -> None:
    """Find the other processes of the run, before anything asks JAX for its devices; nothing if there are none.

    On TPU JAX finds them by itself. Raises ConfigError for an environment that says only half of it.
    """
    if environ.get(COORDINATOR):
        missing = [name for name in (COUNT, INDEX) if not environ.get(name, "").isdigit()]
        if missing:
            raise ConfigError([f"{COORDINATOR} is set, so {' and '.join(missing)} must be numbers too"])
        jax.distributed.initialize(environ[COORDINATOR], int(environ[COUNT]), int(environ[INDEX]))
    elif config.hardware == "tpu" and ("," in environ.get(HOSTNAMES, "") or environ.get(MEGASCALE)):
        jax.distributed.initialize()


def leave_processes() -> None:
    """Wait for the others, so that none takes this one's end for a failure."""
    if jax.distributed.is_initialized():
        jax.distributed.shutdown()
