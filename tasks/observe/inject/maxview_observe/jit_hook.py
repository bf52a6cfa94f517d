"""Patches `jax.jit` and ahead-of-time compiles, so that a recorder receives every call outside of a trace."""

import functools
from collections.abc import Callable
from typing import Any, Protocol

import jax

from .calls import Call, Words, call_of_compiled, call_of_jitted

_KEPT = "_maxview_made_of"  # attribute of `Lowered` and `Compiled`: jaxpr, function's name, …


class Recorder(Protocol):
    """Receives the calls of jitted functions."""

    def wants(self, name: str) -> bool:
        """Whether to record calls of functions of this name."""

    def again(self, name: str, args: Any, kwargs: Any) -> Words | None:
        """Return the (args, kwargs) for a further call of the step; None if the call must go through `run`."""

    def run(self, call: Call, go_on: Callable[..., Any]) -> Any:
        """Return the result of the call: `go_on(*args, **kwargs)` runs the trainer's own program."""

    def fail(self, name: str, error: Exception) -> None:
        """Note that a call cannot be inspected. The call itself runs unchanged."""


class Jitted:
    """Wraps the result of `jax.jit`, and passes its calls to a recorder."""

    def __init__(self, jitted: Any, function: Any, options: dict[str, Any], recorder: Recorder):
        self._jitted, self._options, self._recorder = jitted, options, recorder
        functools.update_wrapper(self, function, updated=())
        self._name = name_of(function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program; pass the call to the recorder if it wants the name."""
        if not self._recorder.wants(self._name) or in_trace((args, kwargs)):
            return self._jitted(*args, **kwargs)
        if words := self._recorder.again(self._name, args, kwargs):
            return self._jitted(*words[0], **words[1])
        try:
            call = call_of_jitted(self._jitted, self._options, self._name, args, kwargs)
        except Exception as error:
            self._recorder.fail(self._name, error)
            call = None
        return self._jitted(*args, **kwargs) if call is None else self._recorder.run(call, self._jitted)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __getattr__(self, name: str) -> Any:
        if name == "_jitted":  # not set yet while copying: prevents endless recursion
            raise AttributeError(name)
        return getattr(self._jitted, name)


def patch(recorder: Recorder) -> None:
    """Replace `jax.jit`, so that the recorder receives every later call of a jitted function."""
    real = jax.jit

    @functools.wraps(real)
    def jit(fun: Any = None, /, **options: Any) -> Any:
        if fun is None:
            fun = options.pop("fun", None)
        if fun is None:
            return lambda function: jit(function, **options)
        jitted = real(fun, **options)
        return Jitted(jitted, fun, options, recorder) if callable(fun) else jitted

    jax.jit = jit
    _patch_ahead_of_time(recorder)


def _patch_ahead_of_time(recorder: Recorder) -> None:
    """Attach the jaxpr and the function's name to lowered and compiled programs, and pass their calls to `recorder`."""
    stages: Any = jax.stages
    lower, compile_lowered, run = stages.Traced.lower, stages.Lowered.compile, stages.Compiled.__call__

    def lower_and_keep(traced: Any, *words: Any, **named: Any) -> Any:
        lowered = lower(traced, *words, **named)
        lowered.__dict__[_KEPT] = traced.jaxpr, traced.fun_name
        return lowered

    def compile_and_keep(lowered: Any, *words: Any, **named: Any) -> Any:
        compiled = compile_lowered(lowered, *words, **named)
        if made_of := lowered.__dict__.get(_KEPT):
            compiled.__dict__[_KEPT] = (*made_of, lowered)
        return compiled

    def run_and_show(compiled: Any, *args: Any, **kwargs: Any) -> Any:
        made_of = compiled.__dict__.get(_KEPT)
        if made_of is None or not recorder.wants(made_of[1]) or in_trace((args, kwargs)):
            return run(compiled, *args, **kwargs)
        closed, name, lowered = made_of
        if words := recorder.again(name, args, kwargs):
            return run(compiled, *words[0], **words[1])
        go_on = functools.partial(run, compiled)
        call = call_of_compiled(compiled, lowered, closed, name, args, kwargs)
        return go_on(*args, **kwargs) if call is None else recorder.run(call, go_on)

    stages.Traced.lower, stages.Lowered.compile, stages.Compiled.__call__ = (
        lower_and_keep,
        compile_and_keep,
        run_and_show,
    )


def name_of(function: Any) -> str:
    """Return a function's name; for a `functools.partial`, that of its function."""
    while not hasattr(function, "__name__") and hasattr(function, "func"):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))


def in_trace(values: Any) -> bool:
    """Whether a call with these arguments is part of the trace of another function."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree_util.tree_leaves(values))
