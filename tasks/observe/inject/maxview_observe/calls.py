"""One call of a jitted function: its program, and its arguments as a flat list with names."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax

type Words = tuple[tuple[Any, ...], dict[str, Any]]
type PutBack = Callable[..., Words]


@dataclass
class Call:
    """A call that has not run yet."""

    name: str  # name of the function
    closed: Any  # the function's ClosedJaxpr
    arguments: list[str]  # name of each leaf
    leaves: list[Any]  # the call's arguments without static ones, as a flat list
    rebuild: Callable[[list[Any]], Words]  # leaves → (args, kwargs) for the jitted function
    rebuild_dynamic: Callable[[list[Any]], Words]  # leaves → (args, kwargs) for a compiled program: no static ones
    lower: Callable[[], Any]  # returns the function's `Lowered`
    compiled: Any = None  # the `Compiled`, if the trainer compiled ahead of time; else None


def call_of_jitted(jitted: Any, options: dict[str, Any], name: str, args: Any, kwargs: Any) -> Call | None:
    """Return the call of a jitted function; None if its program has another number of inputs than leaves."""
    traced = jitted.trace(*args, **kwargs)
    dynamic_args, dynamic_kwargs, put_back = _split_static(jitted, options, args, kwargs)
    return _make(name, traced.jaxpr, dynamic_args, dynamic_kwargs, put_back, traced.lower)


def call_of_compiled(compiled: Any, lowered: Any, closed: Any, name: str, args: Any, kwargs: Any) -> Call | None:
    """Return the call of a program that the trainer compiled ahead of time, which takes no static arguments."""
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

    def rebuild_dynamic(leaves: list[Any]) -> Words:
        return jax.tree_util.tree_unflatten(tree, leaves)  # type: ignore[no-any-return]

    def rebuild(leaves: list[Any]) -> Words:
        return put_back(*rebuild_dynamic(leaves))

    return Call(name, closed, names, leaves, rebuild, rebuild_dynamic, lower, compiled)


def _put_none_back(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Words:
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

    def put_back(args: Sequence[Any], kwargs: dict[str, Any]) -> Words:
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
