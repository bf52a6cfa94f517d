"""Starts the recorder in a process that has just imported JAX."""

import atexit

from .jit_hook import patch
from .observe_step import StepObserver
from .report import say
from .settings import read_settings
from .share_start import StartSharer


def begin(settings_file: str) -> None:
    """Patch `jax.jit` as the settings say. Raises OSError, ValueError."""
    settings = read_settings(settings_file)
    if not settings.end:
        patch(StartSharer(settings))
        return
    observer = StepObserver(settings)
    patch(observer)
    atexit.register(observer.end_without_step)
    say(f"observing call {settings.call} of the training step")
