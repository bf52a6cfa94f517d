"""Makes Pallas kernels run interpreted, so that a program on processors has the kernels of a TPU or GPU."""

import importlib
from functools import partial
from typing import Any

import jax
from jax._src import config

PALLAS = "pallas_call"


def interpret_kernels(platform: str) -> None:
    """Lower Pallas kernels as plain operations if JAX's platform is the CPU; do nothing on other platforms.

    platform: the name that `jax.default_backend` then returns to the trainer, which may choose its kernels by it; "":
    the true one.
    """
    if jax.config.jax_platforms != "cpu":
        return
    config.pallas_tpu_interpret_mode_context_manager.set_global(True)
    if platform:
        jax.default_backend = lambda: platform


def interpreted_body(equation: Any) -> Any:
    """Return the jaxpr of plain operations, closed, that computes what a Pallas kernel computes."""
    interpreter = importlib.import_module("jax._src.pallas.hlo_interpreter")
    params = {key: value for key, value in equation.params.items() if key != "interpret"}
    types = [variable.aval for variable in equation.invars]
    with jax.enable_x64(False):  # as the trainer traced it
        return jax.make_jaxpr(partial(interpreter.pallas_call_hlo_interpret, **params))(*types)
