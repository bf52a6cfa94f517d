"""Starts the recorder in a process that has just imported JAX."""

import atexit
import importlib

import jax

from maxview_probe.observe.call_meter import CallMeter
from maxview_probe.observe.interpret_kernels import interpret_kernels
from maxview_probe.observe.jit_hook import patch
from maxview_probe.observe.later_steps import LaterSteps
from maxview_probe.observe.loop_clock import LoopClock
from maxview_probe.observe.loop_turns import LoopTurns
from maxview_probe.observe.observation_files import read_settings
from maxview_probe.observe.observe_step import StepObserver
from maxview_probe.observe.share_start import StartSharer
from maxview_probe.observe.state_witness import StateWitness
from maxview_probe.observe.stderr_lines import print_on_stderr


def begin(settings_file: str) -> None:
    """Patch `jax.jit` to observe the training step, to time its host loop, or to share the run's start.

    Raises OSError, ValueError; LookupError if `tree_mode` is set and Flax has no such mode.
    """
    settings = read_settings(settings_file)
    if settings.lines_only:
        return
    if settings.loop_calls:
        clock = LoopClock(settings)
        patch(clock)
        atexit.register(clock.write)
        return
    if settings.turns:
        patch(LoopTurns(settings))
        return
    if settings.later_steps:
        later = LaterSteps(settings)
        patch(later)
        atexit.register(later.write)
        return
    if settings.meter:
        patch(CallMeter(settings))
        return
    if settings.states:
        witness = StateWitness(settings)
        patch(witness)
        atexit.register(witness.finish)
        return
    if not settings.observe:
        patch(StartSharer(settings))
        return
    # otherwise the compilation cache may return an equal program that has the source lines of another checkout
    jax.config.update("jax_compilation_cache_include_metadata_in_key", True)
    interpret_kernels(settings.platform)
    if settings.automatic_gradients:
        jax.custom_vjp.__call__ = lambda self, *args, **kwargs: self.fun(*args, **kwargs)  # type: ignore[method-assign]
    if settings.tree_mode:
        importlib.import_module("flax").config.update("nnx_graph_mode", False)
    observer = StepObserver(settings)
    patch(observer)
    atexit.register(observer.end_without_step)
    print_on_stderr("observing the first call of the training step")
