"""Turns a function and its arguments into a program: flat arrays in, flat arrays out, gradients too."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from jax._src import config
from jax.interpreters import mlir
from jax.sharding import NamedSharding

from maxview_probe.evaluate.recorded_step import (
    Slot,
    find_main,
    mlir_context,
    parse_program,
    read_device_count,
)
from maxview_probe.evaluate.widen import callback_of, drop_callbacks, walk
from maxview_probe.library.errors import CannotCompare, in_user_terms
from maxview_probe.observe.bits import is_key

DRAWN_INTEGERS = 8  # integers of a `ShapeDtypeStruct` are below this, and below the shortest axis of the floats
COTANGENT = "cotangent"  # role of the arguments that weigh the results whose gradients are taken
GRADIENT, RESULT = "gradient", "result"  # roles of results


@dataclass
class Arguments:
    """The arrays among the arguments of both functions, and how to build the arguments from them."""

    names: list[str]
    values: list[np.ndarray]
    build: Callable[[Sequence[Any]], tuple[Any, ...]]  # arrays → arguments
    shardings: list[Any]  # of each array, if it is spread over several devices; else None

    @property
    def shapes(self) -> list[jax.ShapeDtypeStruct]:
        """What JAX traces a function with."""
        return [
            jax.ShapeDtypeStruct(one.shape, one.dtype, sharding=sharding)
            for one, sharding in zip(self.values, self.shardings, strict=True)
        ]

    @property
    def floats(self) -> list[int]:
        """The indices of arrays of floating-point numbers."""
        return [n for n, one in enumerate(self.values) if jax.numpy.issubdtype(one.dtype, jax.numpy.floating)]


@dataclass
class TracedFunction:
    """One function as a program for processors."""

    name: str
    text: str  # StableHLO, with source lines
    closed: Any  # the ClosedJaxpr
    inputs: list[Slot]
    outputs: list[Slot]
    devices: int
    kept: list[Any] = field(default_factory=list)


def read_arguments(function: Callable[..., Any], args: Sequence[Any]) -> Arguments:
    """Return the arrays in `args`. Numbers, strings and functions of Python in them stay as they are.

    Raises CannotCompare without an array, or for an array that other processes hold.
    """
    paths, tree = jax.tree_util.tree_flatten_with_path(tuple(args))
    leaves: list[Any] = [leaf for _, leaf in paths]
    parameters = _parameter_names(function, len(args))
    places, names, values = list[int](), list[str](), list[np.ndarray]()
    axes = [size for leaf in leaves if _is_float(leaf) for size in leaf.shape]
    random = np.random.default_rng(0)
    for place, (path, leaf) in enumerate(paths):
        if not _is_array(leaf):
            continue
        name = f"{parameters[path[0].idx]}{jax.tree_util.keystr(path[1:])}"
        if isinstance(leaf, jax.core.Tracer):
            raise CannotCompare(f"the argument {name} has no values inside of jax.jit: compare outside of it")
        if getattr(leaf, "is_deleted", bool)():
            raise CannotCompare(f"the argument {name} is deleted: a function that donates its arguments took it before")
        if not is_key(leaf) and jax.numpy.issubdtype(leaf.dtype, jax.numpy.complexfloating):
            raise CannotCompare(f"the argument {name} has complex numbers: give its real and imaginary part")
        if not getattr(leaf, "is_fully_addressable", True):
            raise CannotCompare(f"the argument {name} is spread over several processes: give one process all of it")
        places.append(place)
        names.append(name)
        values.append(_value_of(leaf, random, min([DRAWN_INTEGERS, *axes])))
    if not places:
        raise CannotCompare("no argument is an array: give arrays, or jax.ShapeDtypeStruct for their shapes")

    def build(arrays: Sequence[Any]) -> tuple[Any, ...]:
        found = list(leaves)
        for place, array in zip(places, arrays, strict=True):
            found[place] = _as_key(array, leaves[place]) if is_key(leaves[place]) else array
        return tuple(jax.tree_util.tree_unflatten(tree, found))

    return Arguments(names, values, build, [_sharding_of(leaves[place]) for place in places])


def _sharding_of(leaf: Any) -> Any:
    """Return the sharding of an array over a mesh of several devices; else None."""
    found = getattr(leaf, "sharding", None)
    return found if isinstance(found, NamedSharding) and found.mesh.size > 1 and not is_key(leaf) else None


def _parameter_names(function: Callable[..., Any], count: int) -> list[str]:
    try:
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        found = [name for name, one in inspect.signature(function).parameters.items() if one.kind in kinds]
    except (TypeError, ValueError):
        found = []
    return found[:count] + [f"args[{n}]" for n in range(len(found), count)]


def _is_array(leaf: Any) -> bool:
    """Return whether a leaf is an array that JAX takes: of no texts, dates or objects."""
    if isinstance(leaf, np.ndarray | np.generic):
        return leaf.dtype.kind not in "OSUMm"
    return isinstance(leaf, jax.Array | jax.ShapeDtypeStruct)


def _is_float(leaf: Any) -> bool:
    kind = getattr(leaf, "dtype", None)
    return kind is not None and not is_key(leaf) and jax.numpy.issubdtype(kind, jax.numpy.floating)


def _value_of(leaf: Any, random: np.random.Generator, below: int) -> np.ndarray:
    if is_key(leaf):
        key = jax.random.key(0) if isinstance(leaf, jax.ShapeDtypeStruct) else leaf
        data = np.asarray(jax.random.key_data(key))
        return np.broadcast_to(data, (*leaf.shape, data.shape[-1])) if not key.shape else data
    kind: np.dtype[Any] = np.dtype(jax.dtypes.canonicalize_dtype(leaf.dtype))
    if not isinstance(leaf, jax.ShapeDtypeStruct):
        return np.asarray(leaf).astype(kind)
    if kind.kind == "b":
        return np.asarray(random.integers(0, 2, leaf.shape)).astype(bool)
    if jax.numpy.issubdtype(kind, jax.numpy.integer):
        return np.asarray(random.integers(0, below, leaf.shape)).astype(kind)
    return np.asarray(random.standard_normal(leaf.shape)).astype(kind)


def _as_key(data: Any, leaf: Any) -> Any:
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return jax.random.wrap_key_data(data)
    return jax.random.wrap_key_data(data, impl=jax.random.key_impl(leaf))


@contextmanager
def interpreted_kernels() -> Iterator[None]:
    """Trace and lower Pallas kernels as plain operations, because processors have no kernels."""
    mode = config.pallas_tpu_interpret_mode_context_manager
    before = mode.swap_local(True)
    try:
        yield
    finally:
        mode.set_local(before)


def trace(name: str, function: Callable[..., Any], given: Arguments, *, grad: bool) -> tuple[TracedFunction, list[Any]]:
    """Return a function's program, and the cotangents that it takes behind the arguments.

    grad: the program also returns the gradient with respect to every array of floats. Raises CannotCompare.
    """
    if not callable(function):
        raise CannotCompare(f"{name} is a {type(function).__name__}, and no function")
    flat = _Flat(name, function, given)
    shapes = given.shapes
    cotangents: list[Any] = []
    called: Callable[..., Any] = flat
    with interpreted_kernels(), in_user_terms(name, "traced by JAX"):
        made = jax.eval_shape(flat, *shapes)
    slots = [Slot(RESULT, meaning, *_type_of(one)) for meaning, one in zip(flat.names, made, strict=True)]
    if not any(slot.is_float for slot in slots):
        raise CannotCompare(
            f"{name} returns no floating-point numbers: compare such results with ==, without float64"
            if slots
            else f"{name} returns nothing"
        )
    inputs = [
        Slot(*_role_of(meaning, one), *_type_of(one)) for meaning, one in zip(given.names, given.values, strict=True)
    ]
    if grad:
        if not given.floats:
            raise CannotCompare(f"{name} has no argument of floating-point numbers, and so no gradient")
        random = np.random.default_rng(2)
        floats = [n for n, slot in enumerate(slots) if slot.is_float]
        for n in floats:
            one = made[n]
            drawn = random.standard_normal(one.shape) if one.shape else np.ones(())
            # of few bits: every type of floats that a function may return holds the same numbers
            cotangents.append(np.asarray(drawn).astype(jax.numpy.bfloat16).astype(one.dtype))
            inputs.append(Slot(COTANGENT, slots[n].meaning, slots[n].shape, slots[n].type))
        called = _with_gradients(flat, given.floats, floats)
        shapes += [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in cotangents]
        slots += [Slot(GRADIENT, f"d {inputs[n].meaning}", inputs[n].shape, inputs[n].type) for n in given.floats]
    with interpreted_kernels(), in_user_terms(name, "differentiated by JAX" if grad else "traced by JAX"):
        traced = jax.jit(called, keep_unused=True).trace(*shapes)
    with interpreted_kernels(), in_user_terms(name, "lowered for a processor"):
        text = traced.lower(lowering_platforms=("cpu",)).as_text(debug_info=True)
    with mlir_context():
        module = parse_program(text)
        devices = read_device_count(module)
        drop_callbacks(module)
        if len(find_main(module).regions[0].blocks[0].arguments) != len(inputs):  # of an array of an earlier trace
            raise CannotCompare(f"{name} keeps an array in a variable outside of it: take and return it instead")
        if any(map(callback_of, walk(module.operation))):
            raise CannotCompare(f"{name} calls Python, and its program lacks what that computes: use operations of JAX")
    return TracedFunction(name, text, traced.jaxpr, inputs, slots, devices), cotangents


class _Flat:
    """A function of flat arrays that returns flat arrays; `names` has the names of its results."""

    def __init__(self, name: str, function: Callable[..., Any], given: Arguments):
        self.name, self.function, self.given = name, function, given
        self.names: list[str] = []

    def __call__(self, *arrays: Any) -> list[Any]:
        args = self.given.build(arrays)
        before = jax.tree_util.tree_leaves(args)
        paths: list[tuple[Any, Any]] = jax.tree_util.tree_flatten_with_path(self.function(*args))[0]
        after = jax.tree_util.tree_leaves(args)
        if len(before) != len(after) or any(old is not new for old, new in zip(before, after, strict=True)):
            raise CannotCompare(f"{self.name} changes one of its arguments in place: return the new value instead")
        self.names, found = [], list[Any]()
        for path, leaf in paths:
            if not isinstance(leaf, np.ndarray | np.generic | jax.Array | bool | int | float | complex):
                raise CannotCompare(f"{self.name} returns a {type(leaf).__name__}, which is no array")
            if not is_key(leaf) and jax.numpy.iscomplexobj(leaf):
                raise CannotCompare(f"{self.name} returns complex numbers: return their real and imaginary part")
            self.names.append(jax.tree_util.keystr(path).lstrip(".") or "the result")
            found.append(_as_array(leaf))
        return found


def _as_array(leaf: Any) -> Any:
    return jax.random.key_data(leaf) if is_key(leaf) else jax.numpy.asarray(leaf)


def _with_gradients(flat: _Flat, wanted: Sequence[int], floats: Sequence[int]) -> Callable[..., list[Any]]:
    def called(*arrays: Any) -> list[Any]:
        arguments, cotangents = arrays[: len(arrays) - len(floats)], arrays[len(arrays) - len(floats) :]

        def outputs(chosen: Sequence[Any]) -> tuple[list[Any], list[Any]]:
            given = list(arguments)
            for n, one in zip(wanted, chosen, strict=True):
                given[n] = one
            found = flat(*given)
            return [found[n] for n in floats], found

        _, pull, found = jax.vjp(outputs, [arguments[n] for n in wanted], has_aux=True)
        (gradients,) = pull(list(cotangents))
        return [*found, *gradients]

    return called


def _type_of(array: Any) -> tuple[tuple[int, ...], str]:
    kind = np.dtype(array.dtype) if not is_key(array) else np.dtype(np.uint32)
    with mlir_context():
        return tuple(array.shape), str(mlir.dtype_to_ir_type(kind))


def _role_of(name: str, value: np.ndarray) -> tuple[str, str]:
    """Return the role of an argument in the sweep: its floats vary, its counters count, the rest is data."""
    last = name.replace("]", "").replace("'", "").replace("[", ".").split(".")[-1]
    if value.shape == () and last in ("count", "step", "mini_step", "gradient_step"):
        return "counter", name
    return ("parameter" if jax.numpy.issubdtype(value.dtype, jax.numpy.floating) else "data"), name
