"""Patches `jax.jit` and ahead-of-time compiles, so that a recorder receives the calls that it wants.

Calls inside of a trace are not recorded.
A recorded call has the jitted function's program and the call's arguments as a flat list (leaves) with names.
"""

import functools
import inspect
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Protocol, TypeAlias

import jax

ArgsKwargs: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]
PutBack: TypeAlias = Callable[..., ArgsKwargs]


@dataclass
class Call:
    """A call that has not run yet."""

    name: str  # name of the function
    closed: Any  # the function's ClosedJaxpr
    arguments: list[str]  # name of each leaf
    leaves: list[Any]  # the call's arguments without static ones, as a flat list
    tree: Any  # the structure of (args, kwargs) without static arguments
    put_back: PutBack  # inserts the static arguments into (args, kwargs)
    lower: Callable[[], Any]  # returns the function's `Lowered`
    compiled: Any = None  # the `Compiled`, if the trainer compiled ahead of time; else None
    trace_s: float | None = None  # seconds of this thread's processor time that the trace took; None: not made here
    retrace: Callable[[], Any] | None = None  # traces the function once more, also when the arguments are gone

    def rebuild(self) -> ArgsKwargs:
        """Return (args, kwargs) for the jitted function, made from the leaves and the static arguments."""
        return self.put_back(*self.rebuild_dynamic())

    def rebuild_dynamic(self) -> ArgsKwargs:
        """Return (args, kwargs) for a compiled program, which takes no static arguments, made from the leaves."""
        return jax.tree_util.tree_unflatten(self.tree, self.leaves)  # type: ignore[no-any-return]


def call_of_jitted(jitted: Any, options: dict[str, Any], name: str, args: Any, kwargs: Any) -> Call | None:
    """Return the call of a jitted function; None if the program has more or fewer inputs than the call has leaves."""
    began = time.thread_time()
    traced = jitted.trace(*args, **kwargs)
    spent = time.thread_time() - began
    dynamic_args, dynamic_kwargs, put_back = _split_static(jitted, options, args, kwargs)
    call = _make(name, traced.jaxpr, dynamic_args, dynamic_kwargs, put_back, traced.lower)
    if call is not None:
        call.trace_s = spent
        with suppress(Exception):  # an array of another kind is no reason to record nothing
            given = jax.tree_util.tree_map(_describe, (dynamic_args, dynamic_kwargs))
            call.retrace = lambda: jitted.trace(*put_back(*given)[0], **put_back(*given)[1])
    if call is not None and isinstance(jitted, Mapped):
        call.arguments = jitted.name_arguments(dynamic_args, dynamic_kwargs)
    return call


def _describe(leaf: Any) -> Any:
    """Return an array without its values."""
    if not isinstance(leaf, jax.Array):
        return leaf
    sharding = leaf.sharding if getattr(leaf, "committed", False) else None
    is_weak = getattr(leaf, "weak_type", False)  # random keys have none
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding, weak_type=is_weak)


def call_of_compiled(compiled: Any, lowered: Any, closed: Any, name: str, args: Any, kwargs: Any) -> Call | None:
    """Return the call of a program that the trainer compiled ahead of time; None unless there is one leaf per input."""
    return _make(name, closed, args, kwargs, _put_none_back, lambda: lowered, compiled)


def _make(
    name: str, closed: Any, args: Any, kwargs: Any, put_back: PutBack, lower: Callable[[], Any],
    compiled: Any = None,
) -> Call | None:  # fmt: skip
    paths, tree = jax.tree_util.tree_flatten_with_path((args, kwargs))
    leaves = [leaf for _, leaf in paths]
    if len(leaves) != len(closed.jaxpr.invars):
        return None
    names = list(getattr(closed.jaxpr.debug_info, "arg_names", None) or [])
    if len(names) != len(leaves) or len(set(names)) < len(leaves):
        names = [jax.tree_util.keystr(path[1:]) for path, _ in paths]
    return Call(name, closed, names, leaves, tree, put_back, lower, compiled)


class Mapped:
    """A function of `jax.pmap`, with the `trace` that jitted functions have."""

    def __init__(self, mapped: Any, function: Any):
        self._mapped, self._function = mapped, function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function."""
        return self._mapped(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._mapped, name)

    def trace(self, *args: Any, **kwargs: Any) -> Any:
        """Return an object with the ClosedJaxpr of a call, and its `lower`."""
        lowered = self._mapped.lower(*args, **kwargs)
        lowered.__dict__[_KEPT] = _last_lowered[0], function_name(self._function)
        return SimpleNamespace(jaxpr=_last_lowered[0], lower=lambda: lowered)

    def name_arguments(self, args: Any, kwargs: Any) -> list[str]:
        """Return the name of each leaf: JAX keeps none."""
        try:
            names = list(inspect.signature(self._function).parameters)
        except (TypeError, ValueError):
            names = []
        names += [f"argument{n}" for n in range(len(names), len(args))]
        words = [(names[n], one) for n, one in enumerate(args)] + list(kwargs.items())
        return [
            f"{name}{jax.tree_util.keystr(path)}"
            for name, one in words
            for path, _ in jax.tree_util.tree_flatten_with_path(one)[0]
        ]


_last_lowered: list[Any] = []  # the ClosedJaxpr that was lowered last


def _put_none_back(args: tuple[Any, ...], kwargs: dict[str, Any]) -> ArgsKwargs:
    return args, kwargs


def _split_static(jitted: Any, options: dict[str, Any], args: Any, kwargs: Any) -> tuple[Any, Any, PutBack]:
    """Return the dynamic args and kwargs, and a function that inserts the static arguments into such a pair."""
    numbers, names = _as_list(options.get("static_argnums")), _as_list(options.get("static_argnames"))
    if not numbers and not names:
        return args, kwargs, _put_none_back
    try:
        parameters = list(inspect.signature(jitted).parameters)
        numbers = [n % len(parameters) if n < 0 else n for n in numbers]
        numbers += [parameters.index(name) for name in names if name in parameters]
        names = [*names, *(parameters[n] for n in numbers if n < len(parameters))]
    except ValueError:
        pass  # no signature: static argument names are used as given
    fixed = {n: args[n] for n in numbers if n < len(args)}
    fixed_names = {name: kwargs[name] for name in kwargs if name in names}

    def put_back(args: Sequence[Any], kwargs: dict[str, Any]) -> ArgsKwargs:
        rest, merged = iter(args), list[Any]()
        for n in range(len(args) + len(fixed)):
            merged.append(fixed[n] if n in fixed else next(rest))
        return tuple(merged), kwargs | fixed_names

    dynamic = tuple(value for n, value in enumerate(args) if n not in fixed)
    return dynamic, {name: value for name, value in kwargs.items() if name not in fixed_names}, put_back


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return [value] if isinstance(value, (int, str)) else list(value)


_KEPT = "_maxview_made_of"  # attribute of a `Lowered`: (jaxpr, function's name); of a `Compiled`, also its `Lowered`


class Recorder(Protocol):
    """Receives the calls of jitted functions."""

    def prepare(self, function: Any) -> Any:
        """Return the function to jit in place of a function."""

    def wants(self, name: str) -> bool:
        """Whether calls of functions of this name go to this recorder."""

    def before_compile(self, name: str, closed: Any, lowered: Any) -> None:
        """Act before the trainer compiles a function ahead of time."""

    def replace_arguments(self, name: str, args: Any, kwargs: Any) -> ArgsKwargs | None:
        """Return the (args, kwargs) for a further call of the step; None if the call must go through `run`."""

    def run(self, call: Call, go_on: Callable[..., Any]) -> Any:
        """Return the result of the call: `go_on(*args, **kwargs)` runs the trainer's own program."""

    def fail(self, name: str, error: Exception) -> None:
        """Note that a call cannot be inspected. The call itself runs unchanged."""

    def before_other(self, name: str, jitted: Any, args: Any, kwargs: Any) -> None:
        """Act before a call that is not the step's, perhaps inside a trace."""

    def before_run(self, name: str) -> None:
        """Act before a call of a program that was compiled ahead of time, and is not the step's."""

    def after_other(self, name: str, given: Any, results: Any) -> None:
        """Act after a call that is not the step's, except inside a trace. given: (args, kwargs)."""


class Bystander:
    """A `Recorder` that takes no call over: it acts before and after the calls."""

    def prepare(self, function: Any) -> Any:
        return function

    def wants(self, name: str) -> bool:
        return False

    def replace_arguments(self, name: str, args: Any, kwargs: Any) -> ArgsKwargs | None:
        return None

    def run(self, call: Call, go_on: Callable[..., Any]) -> Any:
        raise AssertionError("no call is wanted")

    def before_other(self, name: str, jitted: Any, args: Any, kwargs: Any) -> None:
        pass

    def before_run(self, name: str) -> None:
        pass

    def after_other(self, name: str, given: Any, results: Any) -> None:
        pass

    def fail(self, name: str, error: Exception) -> None:
        pass


class Jitted:
    """Wraps the result of `jax.jit`, and passes its calls to a recorder."""

    def __init__(self, jitted: Any, function: Any, options: dict[str, Any], recorder: Recorder):
        self._jitted, self._options, self._recorder = jitted, options, recorder
        functools.update_wrapper(self, function, updated=())
        self._name = function_name(function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program; pass the call to the recorder if it wants this function, except inside a trace."""
        if not self._recorder.wants(self._name) or in_trace((args, kwargs)):
            self._recorder.before_other(self._name, self._jitted, args, kwargs)
            results = self._jitted(*args, **kwargs)
            self._recorder.after_other(self._name, (args, kwargs), results)
            return results
        if words := self._recorder.replace_arguments(self._name, args, kwargs):
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
    """Replace `jax.jit`, so that functions jitted later pass their calls to the recorder; also patch `jax.stages`."""
    real = jax.jit

    @functools.wraps(real)
    def jit(fun: Any = None, /, **options: Any) -> Any:
        if fun is None:
            fun = options.pop("fun", None)
        if fun is None:
            return lambda function: jit(function, **options)
        jitted = real(recorder.prepare(fun), **options)
        return Jitted(jitted, fun, options, recorder) if callable(fun) else jitted

    jax.jit = jit
    real_map = jax.pmap

    @functools.wraps(real_map)
    def pmap(fun: Any, *words: Any, **options: Any) -> Any:
        mapped = real_map(recorder.prepare(fun), *words, **options)
        fixed = {"static_argnums": options.get("static_broadcasted_argnums")}
        return Jitted(Mapped(mapped, fun), fun, fixed, recorder)

    jax.pmap = pmap
    _patch_ahead_of_time(recorder)


def _patch_ahead_of_time(recorder: Recorder) -> None:
    """Attach the jaxpr and the function's name to lowered and compiled programs, and pass their calls to `recorder`."""
    stages: Any = jax.stages
    lower, compile_lowered, run = stages.Traced.lower, stages.Lowered.compile, stages.Compiled.__call__

    def lower_and_keep(traced: Any, *words: Any, **named: Any) -> Any:
        lowered = lower(traced, *words, **named)
        lowered.__dict__[_KEPT] = traced.jaxpr, traced.fun_name
        _last_lowered[:] = [traced.jaxpr]
        return lowered

    def compile_and_keep(lowered: Any, *words: Any, **named: Any) -> Any:
        made_of = lowered.__dict__.get(_KEPT)
        if made_of:
            recorder.before_compile(made_of[1], made_of[0], lowered)
        compiled = compile_lowered(lowered, *words, **named)
        if made_of:
            compiled.__dict__[_KEPT] = (*made_of, lowered)
        return compiled

    def run_and_record(compiled: Any, *args: Any, **kwargs: Any) -> Any:
        made_of = compiled.__dict__.get(_KEPT)
        if made_of is None or not recorder.wants(made_of[1]) or in_trace((args, kwargs)):
            if made_of is not None:
                recorder.before_run(made_of[1])
            results = run(compiled, *args, **kwargs)
            if made_of is not None:
                recorder.after_other(made_of[1], (args, kwargs), results)
            return results
        closed, name, lowered = made_of
        if words := recorder.replace_arguments(name, args, kwargs):
            return run(compiled, *words[0], **words[1])
        go_on = functools.partial(run, compiled)
        call = call_of_compiled(compiled, lowered, closed, name, args, kwargs)
        return go_on(*args, **kwargs) if call is None else recorder.run(call, go_on)

    stages.Traced.lower, stages.Lowered.compile = lower_and_keep, compile_and_keep
    stages.Compiled.__call__ = run_and_record


def function_name(function: Any) -> str:
    """Return the name of a function, of the function in a `functools.partial`, or of another callable's type."""
    while not hasattr(function, "__name__") and hasattr(function, "func"):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))


def is_on_host() -> bool:
    """Whether Python runs outside of all traces of JAX; True if this JAX does not tell."""
    from jax._src import core

    is_clean = getattr(core, "trace_state_clean", None)
    return is_clean is None or bool(is_clean())


def in_trace(values: Any) -> bool:
    """Whether a call with these arguments happens while JAX traces another function."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree_util.tree_leaves(values))
