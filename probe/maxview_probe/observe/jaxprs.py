"""Reads jaxprs and runs single equations, with any JAX from 0.8 on."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from maxview_probe.observe.interpret_kernels import PALLAS, interpreted_body

# Primitives whose body takes the equation's operands and returns its results: the body is evaluated in their place.
_INLINED = frozenset({
    "pjit", "jit", "closed_call", "core_call", "remat", "remat2", "checkpoint",
    "custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr",
})  # fmt: skip
_BODIES = ("jaxpr", "call_jaxpr", "fun_jaxpr")
SHARD_MAP = "shard_map"
# On one device these return their operand, perhaps in another shape; `axis_index` has no operand and returns 0.
_COLLECTIVES = frozenset({
    "all_gather", "all_gather_invariant", "all_to_all", "axis_index", "pbroadcast", "pcast", "pmax", "pmin", "psum",
    "psum2", "psum_invariant", "pvary", "reduce_scatter",
})  # fmt: skip
_COMBINING = _COLLECTIVES - {"axis_index", "pbroadcast", "pcast", "pvary"}  # the parts of several devices
_PRODUCTS = frozenset({"dot_general", "conv_general_dilated", "ragged_dot", "ragged_dot_general"})
REMAT = frozenset({"remat", "remat2", "checkpoint"})
LIKELY_NAME, MIN_WEIGHTS = "train_step", 2
_OF_JAX = re.compile(r"/jax/_src/(?:numpy|nn|random|scipy|lax|image|pallas/hlo_interpreter)\b")


def open_body(body: Any) -> tuple[Any, Any]:
    """Return the jaxpr and the constants of a body, which is a ClosedJaxpr or a Jaxpr."""
    return (body.jaxpr, body.consts) if hasattr(body, "jaxpr") else (body, getattr(body, "consts", ()))


def inlined_body(equation: Any) -> tuple[Any, Any] | None:
    """Return the jaxpr and the constants of an equation that only calls an inner jaxpr, else None.

    Also None if the inner jaxpr has more or fewer inputs than the equation. A kernel's jaxpr is its interpreter's.
    """
    if equation.primitive.name == PALLAS:
        return open_body(interpreted_body(equation))
    if equation.primitive.name not in _INLINED and not _runs_on_one_device(equation):
        return None
    body = next((equation.params[key] for key in _BODIES if equation.params.get(key) is not None), None)
    if body is None:
        return None
    found = open_body(body)
    return found if len(found[0].invars) == len(equation.invars) else None


def _runs_on_one_device(equation: Any) -> bool:
    """Whether an equation is a `shard_map` over one device, and all of its collectives are in _COLLECTIVES."""
    if equation.primitive.name != SHARD_MAP or equation.params["mesh"].size != 1:
        return False
    names = set(equation.params["mesh"].axis_names)
    inside = equations(equation.params["jaxpr"])
    return all(one.primitive.name in _COLLECTIVES or not names & _words(one.params) for one in inside)


def _words(params: dict[str, Any]) -> set[str]:
    values = [part for value in params.values() for part in (value if isinstance(value, tuple) else (value,))]
    return {value for value in values if isinstance(value, str)}


def on_one_device(equation: Any, values: Sequence[Any]) -> list[Any] | None:
    """Return the results of a collective in a `shard_map` over one device; None for operations not in _COLLECTIVES."""
    if equation.primitive.name not in _COLLECTIVES:
        return None
    if not values:
        return [np.zeros(variable.aval.shape, variable.aval.dtype) for variable in equation.outvars]  # axis_index
    return [value.reshape(made.aval.shape) for value, made in zip(values, equation.outvars, strict=True)]


def find_collective(equation: Any, output: int) -> Any | None:
    """Return the equation of a `shard_map`'s body that combines the devices' parts into one of its results.

    None for other operations, and if the result is made of several tensors behind it. `pmean` is a sum and a quotient.
    """
    if equation.primitive.name != SHARD_MAP:
        return None
    return _last_collective(open_body(equation.params["jaxpr"])[0], output)


def _last_collective(jaxpr: Any, output: int) -> Any | None:
    wanted = jaxpr.outvars[output]
    for equation in reversed(jaxpr.eqns):
        made = next((n for n, variable in enumerate(equation.outvars) if variable is wanted), None)
        if made is None:
            continue
        if equation.primitive.name in _COMBINING:
            return equation
        if (body := inlined_body(equation)) is not None:
            return _last_collective(body[0], made)
        read = [variable for variable in equation.invars if not hasattr(variable, "val")]
        if len(read) != 1:
            return None
        wanted = read[0]
    return None


def is_of_jax(jaxpr: Any) -> bool:
    """Whether a jaxpr was traced from a function of JAX itself, such as `jnp.where`."""
    return _OF_JAX.search(str(getattr(jaxpr.debug_info, "func_src_info", None))) is not None


def scan_sizes(params: dict[str, Any]) -> tuple[int, int]:
    """Return the numbers of constants and of carries of a scan."""
    if "num_consts" in params:
        return params["num_consts"], params["num_carry"]
    consts, carries = params["ft_in"].unpack()[:2]  # JAX 0.11 and newer
    return len(consts), len(carries)


def bind(primitive: Any, params: dict[str, Any], values: Sequence[Any]) -> list[Any]:
    """Run an equation's primitive on values; return its results."""
    params = primitive.get_bind_params(params)
    functions, params = params if isinstance(params, tuple) else ((), params)  # JAX 0.9 and older return a pair
    found = primitive.bind(*functions, *values, **params)
    return list(found) if primitive.multiple_results else [found]


def equations(jaxpr: Any) -> Iterator[Any]:
    """Yield every equation of a jaxpr and of its inner jaxprs."""
    for equation in jaxpr.eqns:
        yield equation
        for value in equation.params.values():
            for part in value if isinstance(value, (tuple, list)) else (value,):
                body = getattr(part, "jaxpr", part)
                if hasattr(body, "eqns"):
                    yield from equations(body)


def is_step(name: str, jaxpr: Any) -> bool:
    """Whether a jitted function looks like a training step.

    It has matrix products, convolutions or the name LIKELY_NAME, and at least half of its floating-point arrays
    among the arguments match a result in type and shape (new weights or gradients). Arrays of one type and shape may
    count once: gradients are fewer than the weights and moments of the state that the function is given. Fewer suffice
    if all arrays that it returns match: plain gradient descent on few weights has more arrays of the batch than of the
    state.
    """
    given, made = _floats(jaxpr.invars), _floats(jaxpr.outvars)
    matches = given & made
    is_update = matches == made and matches.total() >= MIN_WEIGHTS
    is_half = matches.total() * 2 >= given.total() or len(matches) * 2 >= len(given)
    if not given or not (is_update or is_half):
        return False
    return name == LIKELY_NAME or has_products(jaxpr)


def has_products(jaxpr: Any) -> bool:
    """Whether a jaxpr has matrix products or convolutions."""
    return any(equation.primitive.name in _PRODUCTS for equation in equations(jaxpr))


def _floats(variables: Any) -> Counter[tuple[Any, ...]]:
    types = [variable.aval for variable in variables if getattr(variable.aval, "ndim", 0) > 0]
    return Counter((kind.shape, str(kind.dtype)) for kind in types if "float" in str(kind.dtype))
