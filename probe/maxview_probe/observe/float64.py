"""Runs single equations of a jaxpr in float64, whatever floats the program has, so that rounding falls to 1e-16.

Integers, explicit rounding, and random bits that become floats stay as the program has them.
"""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from maxview_probe.observe import jaxprs
from maxview_probe.observe.host_operations import on_host

BITCAST = "bitcast_convert_type"


def is_float(value: Any) -> bool:
    """Whether a value or a variable's type has floating-point or complex elements."""
    return jax.numpy.issubdtype(getattr(value, "dtype", np.int32), np.inexact)


def widened_type(kind: Any) -> Any:
    """Return float64 for a type of floats, complex128 for complex numbers; other types unchanged."""
    if jax.numpy.issubdtype(kind, np.complexfloating):
        return np.dtype(np.complex128)
    return np.dtype(np.float64) if jax.numpy.issubdtype(kind, np.floating) else kind


def widen(value: Any) -> Any:
    """Return an array with float64 or complex128 elements in place of floats."""
    return value.astype(widened_type(value.dtype)) if is_float(value) else value


def run_equation(equation: Any, params: dict[str, Any], values: Sequence[Any]) -> list[Any]:
    """Return the results of an equation on widened values. params: from `widened_params`."""
    name = equation.primitive.name
    results = on_host(name, params, values) or jaxprs.on_one_device(equation, values)
    if results is not None:
        return results
    if name == BITCAST:
        return narrowly(equation, values)
    if name == jaxprs.SHARD_MAP:
        return _run_on_devices(equation, values)
    return jaxprs.bind(equation.primitive, params, values)


def _run_on_devices(equation: Any, values: Sequence[Any]) -> list[Any]:
    """Return the results of a `shard_map` over several devices. Only inside of one can collectives be traced."""
    params = equation.params
    jaxpr, consts = jaxprs.open_body(params["jaxpr"])
    names = params.get("newly_manual_axes", params.get("manual_axes"))  # JAX 0.11 and newer; older ones
    options = {key: params[key] for key in ("in_specs", "out_specs", "check_vma")}
    options |= {"axis_names": set(names), "mesh": _with_devices(params["mesh"])}
    run = jax.shard_map(lambda *given: tuple(interpret(jaxpr, consts, given)), **options)
    return list(map(_join_copies, jax.jit(run)(*values)))


def _join_copies(result: Any) -> Any:
    """Return an array; where its devices hold copies that differ, their mean.

    `check_vma=False` lets a program call copies equal that are not. A difference on any device is one of the result.
    """
    copies: dict[str, list[Any]] = {}
    for shard in result.addressable_shards:
        copies.setdefault(str(shard.index), []).append(shard)
    if not is_float(result) or not any(_differ(its) for its in copies.values()):
        return result
    joined = np.array(result)
    for its in copies.values():
        joined[its[0].index] = np.mean([np.asarray(one.data) for one in its], axis=0)
    return joined


def _differ(copies: Sequence[Any]) -> bool:
    first = np.asarray(copies[0].data)
    return any(not np.array_equal(first, np.asarray(one.data), equal_nan=True) for one in copies[1:])


def _with_devices(mesh: Any) -> Any:
    """Return a mesh of devices with the axes of a mesh that may have none. Their order has no influence on results."""
    if isinstance(mesh, jax.sharding.Mesh):
        return mesh
    devices = np.asarray(jax.devices()[: mesh.size]).reshape(mesh.axis_sizes)
    return jax.sharding.Mesh(devices, mesh.axis_names, axis_types=mesh.axis_types)


def narrowly(equation: Any, values: Sequence[Any]) -> list[Any]:
    """Return the results of an equation that is evaluated in the program's own types, widened again."""
    own = [
        value.astype(variable.aval.dtype) if is_float(value) else value
        for value, variable in zip(values, equation.invars, strict=True)
    ]
    return [widen(result) for result in jaxprs.bind(equation.primitive, equation.params, own)]


def widened_params(equation: Any) -> dict[str, Any]:
    """Return an equation's parameters with float64 in place of other floats, also in inner jaxprs."""
    if equation.primitive.name == jaxprs.SHARD_MAP:
        return equation.params  # type: ignore[no-any-return]
    return {
        key: tuple(_widened(key, one) for one in value) if key == "branches" else _widened(key, value)
        for key, value in equation.params.items()
    }


def _widened(key: str, value: Any) -> Any:
    if key == "precision":  # of a product: "multiply bfloat16, add float32"
        return None
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return widened_type(value)
    if hasattr(value, "eqns") or hasattr(getattr(value, "jaxpr", None), "eqns"):
        return _trace_again(value)
    return value


def _trace_again(body: Any) -> Any:
    """Return a jaxpr, closed or not, traced again with float64 in place of other floats."""
    jaxpr, consts = jaxprs.open_body(body)
    types = [jax.ShapeDtypeStruct(one.aval.shape, widened_type(one.aval.dtype)) for one in jaxpr.invars]
    closed = jax.make_jaxpr(lambda *values: interpret(jaxpr, consts, values))(*types)
    return closed if hasattr(body, "jaxpr") else closed.jaxpr


def interpret(jaxpr: Any, consts: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """Return the results of a jaxpr on widened values, which may be JAX's tracers."""
    known = dict(zip(jaxpr.constvars, map(widen, consts), strict=True)) | dict(zip(jaxpr.invars, values, strict=True))

    def read(variable: Any) -> Any:
        return literal(variable) if hasattr(variable, "val") else known[variable]

    for equation in jaxpr.eqns:
        given = [read(variable) for variable in equation.invars]
        body = jaxprs.inlined_body(equation)
        if body is not None:
            made = interpret(*body, given)
        elif equation.primitive.name == "reduce_precision":
            made = given
        elif equation.primitive.name == BITCAST:
            made = narrowly(equation, given)
        else:
            made = jaxprs.bind(equation.primitive, widened_params(equation), given)
        known.update(zip(equation.outvars, made, strict=True))
    return [read(variable) for variable in jaxpr.outvars]


def literal(variable: Any) -> Any:
    """Return a constant with the value that the program's type holds, widened."""
    return widen(np.asarray(variable.val, getattr(variable.aval, "dtype", None)))
