"""Records all that a loop computes: its jitted calls and its eager operations, from the step's first call on.

An array is followed by identity, from the call that returns it to the calls that take it. What none of them returned is
an input: its bits are copied before the call, which may overwrite it. Nothing is kept alive on the devices.
"""

import functools
import re
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from maxview_probe.observe import bits, jaxprs
from maxview_probe.observe.stderr_lines import describe_error
from maxview_probe.observe.variable_paths import find_paths

MAX_ENTRIES = 100_000
MAX_BYTES = 2 << 30  # of copied inputs
CORRELATED = 0.5  # least correlation of an array that the host made from a result
_LIBRARIES = re.compile(r"/jax/_src/|/(?:site|dist)-packages/(?:jax|optax|chex)/")
_JIT = frozenset({"jit", "pjit"})


@dataclass
class Value:
    """An array or a scalar of the loop."""

    number: int
    aval: Any
    sharding: Any
    segment: int  # number of the step's calls when it was made, or first given
    maker: int | None = None  # the entry that returned it; None: an input
    output: int = 0  # which of the entry's results it is
    follows: bool = False  # whether it depends on a result of the step, or carries a state of its own
    is_plain: bool = False  # whether JAX's operations made it of the host's numbers alone, such as zeros
    lineage: dict[str, int] = field(default_factory=dict)  # functions before it → the first segment of each
    bits: Any = None  # of an input
    impl: Any = None  # of a random key
    is_host: bool = False  # a number or an array of the host
    changed: tuple[float, float] | None = None  # of an input that the host made from a result: its distance, both norms

    @property
    def is_key(self) -> bool:
        """Whether it is a typed random key."""
        return bool(jax.numpy.issubdtype(self.aval.dtype, jax.dtypes.prng_key))

    @property
    def is_floats(self) -> bool:
        """Whether it is an array of floating-point numbers."""
        return len(self.aval.shape) > 0 and bool(jax.numpy.issubdtype(self.aval.dtype, jax.numpy.floating))

    @property
    def may_carry(self) -> bool:
        """Whether it may be a state: floats or a number, but no random key."""
        return self.is_floats or (self.aval.shape == () and not self.is_key)


@dataclass
class Entry:
    """One call or operation."""

    name: str
    segment: int
    given: list[int]  # numbers of values
    made: list[int]
    is_step: bool
    jaxpr: Any = None  # of a call; None: a primitive
    primitive: Any = None
    params: Any = None
    names: Sequence[str] = ()  # of the arguments
    names_are_given: bool = False  # by the recorder, for a function whose names JAX does not keep
    traceback: Any = None

    @property
    def is_library(self) -> bool:
        """Whether it is an operation of JAX itself, and no call of the trainer's functions."""
        if self.is_step or self.names_are_given or self.jaxpr is None:
            return self.jaxpr is None
        return _LIBRARIES.search(str(getattr(self.jaxpr.debug_info, "func_src_info", ""))) is not None


class Tape:
    """The entries of a loop. problem: why the recording ended early; empty: it did not."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.values: list[Value] = []
        self.names: dict[int, str] = {}  # value → its path in the trainer's variables, where no call names it
        self.problem = ""
        self.segment = -1  # before the step's first call
        self.thread = 0
        self.bytes = 0
        self._known: dict[int, tuple[Any, int]] = {}  # id of a living array → (weak reference, value)
        # id of an array of the host → (weak reference, segment, its values then, value)
        self._hosts: dict[int, tuple[Any, int, Any, int]] = {}
        self._following: dict[tuple[Any, ...], list[tuple[Any, int]]] = {}  # (shape, type) → living results
        self.is_of_step = True  # whether only the step makes what depends on it
        self._busy = False
        # whether the next call is the step's, its name and those of its arguments
        self._next: tuple[bool, str, Sequence[str]] = (False, "", ())

    def begin_step(self, name: str, names: Sequence[str]) -> None:
        """Begin a segment: the next entry is a call of the step, whose arguments have these names."""
        if self.segment < 0:
            self.thread = threading.get_ident()
        self.segment += 1
        self._next = (True, name, names)

    def name_call(self, name: str, names: Sequence[str]) -> None:
        """Name the next call and its arguments: JAX keeps neither of a function of `pmap`."""
        self._next = (False, name, names)

    def name_values(self) -> None:
        """Find the paths of living arrays in the trainer's variables: an eager optimizer's calls name none."""
        numbers = {}
        arrays = []
        for key, (reference, number) in self._known.items():
            array, maker = reference(), self.values[number].maker
            if array is not None and maker is not None and self.entries[maker].is_library:
                arrays.append(array)
                numbers[key] = number
        for key, path in find_paths(arrays).items():
            self.names[numbers[key]] = path

    def clear(self) -> None:
        """Forget everything, as before the step's first call."""
        self.__init__()  # type: ignore[misc]

    @property
    def is_on(self) -> bool:
        """Whether calls of this thread are recorded now."""
        return self.segment >= 0 and not self._busy and not self.problem and threading.get_ident() == self.thread

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Record nothing inside of the block."""
        before, self._busy = self._busy, True
        try:
            yield
        finally:
            self._busy = before

    def knows(self, array: Any) -> bool:
        """Whether a living array was returned or taken by an entry."""
        return self._find(array) is not None

    def record(self, run: Callable[[], Any], name: str, given: Sequence[Any], **what: Any) -> Any:
        """Return the results of `run`, and record them as an entry. what: fields of `Entry`."""
        entry = None
        with self.paused():
            try:
                entry = self._begin(name, given, what)
            except Exception as error:
                self.problem = self.problem or f"the loop cannot be recorded: {describe_error(error)}"
            results = run()
            if entry is not None:
                try:
                    self._end(entry, jax.tree_util.tree_leaves(results))
                except Exception as error:
                    self.problem = self.problem or f"the loop cannot be recorded: {describe_error(error)}"
        return results

    def _begin(self, name: str, given: Sequence[Any], what: dict[str, Any]) -> Entry:
        is_step, own, names = self._next
        self._next = (False, "", ())
        jaxpr = what.get("jaxpr")
        names = names or (getattr(jaxpr.debug_info, "arg_names", None) if jaxpr is not None else None) or ()
        given_names = names if len(names) == len(given) else ()
        found = [self._value_of(one) for one in given]
        numbers = [one.number for one in found]
        entry = Entry(
            own or name, self.segment, numbers, [], is_step, names=given_names, names_are_given=bool(own), **what
        )
        if is_step or any(one.follows for one in found):
            for array, value in zip(given, found, strict=True):
                if value.maker is not None and not value.follows and value.bits is None and not _is_small(value):
                    self._copy(value, array)
        return entry

    def _end(self, entry: Entry, results: Sequence[Any]) -> None:
        if len(self.entries) >= MAX_ENTRIES:
            self.problem = f"the loop runs more than {MAX_ENTRIES:,} operations"
            return
        given = [self.values[n] for n in entry.given]
        lineage: dict[str, int] = {}
        for one in given:
            if one.may_carry:
                for name, segment in one.lineage.items():
                    lineage[name] = min(segment, lineage.get(name, segment))
        follows = (
            entry.is_step or any(one.follows for one in given) or lineage.get(entry.name, self.segment) < self.segment
        )
        if (
            follows
            and not entry.is_step
            and any(one.follows and one.may_carry and len(one.aval.shape) for one in given)
        ):
            self.is_of_step = False
        is_plain = entry.is_library and all(one.is_plain for one in given)
        lineage.setdefault(entry.name, self.segment)
        same = _forwarded(entry.jaxpr)
        for n, array in enumerate(results):
            value = self._find(array)
            if value is None and n in same:
                value = given[same[n]]
                self._remember(array, value)
            if value is None:
                value = self._add(array, maker=len(self.entries), output=n, follows=follows, lineage=lineage)
                value.is_plain = is_plain and not value.is_key
                self._remember(array, value)
            entry.made.append(value.number)
        self.entries.append(entry)

    def _value_of(self, leaf: Any) -> Value:
        """Return the value of an argument; an unknown one is an input."""
        if (found := self._find(leaf)) is not None:
            return found
        is_array = isinstance(leaf, jax.Array)
        now = np.asarray(leaf) if isinstance(leaf, np.ndarray) else None
        held = self._hosts.get(id(leaf)) if now is not None else None
        # the host may write into its array between two calls
        if held and now is not None and held[0]() is leaf and held[1] == self.segment and np.array_equal(held[2], now):
            return self.values[held[3]]
        value = self._add(leaf, is_host=not is_array)
        value.is_plain = not is_array and not value.aval.shape
        if is_array:
            self._remember(leaf, value)
        self._copy(value, leaf)
        if self.segment and value.is_floats:
            same, value.changed = self._find_source(value)
            if same is not None:  # it went to the host and back
                if is_array:
                    self._remember(leaf, same)
                return same
        if now is not None:
            self._hosts[id(leaf)] = weakref.ref(leaf), self.segment, np.array(now), value.number
        return value

    def _copy(self, value: Value, leaf: Any) -> None:
        if not bits.is_in_process(leaf):
            raise ValueError("its arrays lie in several processes")
        value.impl = jax.random.key_impl(leaf) if value.is_key else None
        held = np.asarray(leaf).astype(value.aval.dtype) if value.is_host else leaf  # JAX gives Python's numbers a type
        value.bits = np.array(bits.to_bits(held))
        self.bytes += value.bits.nbytes
        if self.bytes > MAX_BYTES:
            raise ValueError(f"its inputs have more than {MAX_BYTES >> 30} GiB")

    def _find_source(self, value: Value) -> tuple[Value | None, tuple[float, float] | None]:
        """Return the living result that has the bits of an input, if one has; else how far the closest related one is.

        Related are arrays of one shape that correlate: the input was made from this result, and is no batch.
        """
        closest = None
        alive = []
        for reference, number in self._following.get((value.aval.shape, str(value.aval.dtype)), ()):
            array = reference()
            if array is None or array.is_deleted():
                continue
            alive.append((reference, number))
            own, other = value.bits, bits.to_bits(array)
            if np.array_equal(own, other):
                return self.values[number], None
            mine, theirs = (np.ravel(_as_floats(one, value.aval.dtype)) for one in (own, other))
            gap, size = float(np.linalg.norm(mine - theirs)), float(np.linalg.norm(theirs))
            with np.errstate(all="ignore"):
                is_related = mine.size < 16 or mine.std() == 0 or abs(np.corrcoef(mine, theirs)[0, 1]) > CORRELATED
            if is_related and (closest is None or gap < closest[0]):
                closest = gap, size
        self._following[value.aval.shape, str(value.aval.dtype)] = alive
        return None, closest

    def _add(self, array: Any, **what: Any) -> Value:
        value = Value(len(self.values), _aval_of(array), getattr(array, "sharding", None), self.segment, **what)
        self.values.append(value)
        return value

    def _remember(self, array: Any, value: Value) -> None:
        if isinstance(array, jax.Array):
            reference = weakref.ref(array)
            self._known[id(array)] = reference, value.number
            if value.follows and value.is_floats:
                self._following.setdefault((value.aval.shape, str(value.aval.dtype)), []).append(
                    (reference, value.number)
                )

    def _find(self, array: Any) -> Value | None:
        found = self._known.get(id(array))
        return self.values[found[1]] if found is not None and found[0]() is array else None


def _is_small(value: Value) -> bool:
    """Whether a value is a number, which the calls before it can make again."""
    return value.aval.shape == () and not value.is_key


def _as_floats(values: Any, kind: Any) -> Any:
    is_stored = values.dtype != kind and values.dtype.itemsize == np.dtype(kind).itemsize
    return (values.view(kind) if is_stored else values).astype(np.float64)


def _aval_of(value: Any) -> Any:
    return jax.typeof(value)


def _forwarded(jaxpr: Any) -> dict[int, int]:
    """Return result → argument that it is, of a call."""
    if jaxpr is None:
        return {}
    inner = jaxprs.open_body(jaxpr)[0]
    places = {id(one): n for n, one in enumerate(inner.invars)}
    return {n: places[id(one)] for n, one in enumerate(inner.outvars) if id(one) in places}


def install(tape: Tape) -> str:
    """Make JAX pass the calls and operations of the process to a tape; return why it cannot, or "".

    Must run before the trainer calls a jitted function: JAX keeps a fast path for each function that was called.
    """
    try:
        from jax._src import core, pjit, source_info_util  # no public hook sees a jitted call

        hooks: Any = pjit
        call, path = hooks._pjit_call_impl_python, hooks._get_fastpath_data
        current: Any = source_info_util.current
        eager: Any = core.EvalTrace
        bind = eager.process_primitive
    except (ImportError, AttributeError) as error:
        return f"this JAX has no hook for calls: {describe_error(error)}"

    @functools.wraps(path)
    def no_fast_path(*_: Any, **__: Any) -> None:
        return None

    @functools.wraps(call)
    def call_and_record(*args: Any, **params: Any) -> Any:
        if not tape.is_on:
            return call(*args, **params)
        kept: list[Any] = []

        def run() -> Any:
            kept.append(call(*args, **params))
            return kept[0][0]

        tape.record(run, params["name"], args, jaxpr=params["jaxpr"], params=params, traceback=current().traceback)
        return kept[0]

    @functools.wraps(bind)
    def bind_and_record(trace: Any, primitive: Any, args: Any, params: Any, /) -> Any:
        if not tape.is_on:
            return bind(trace, primitive, args, params)
        what = {"primitive": primitive, "params": params, "traceback": current().traceback}
        name = primitive.name
        if name in _JIT:
            what |= {"jaxpr": params["jaxpr"], "primitive": None}
            name = params.get("name", name)
        return tape.record(lambda: bind(trace, primitive, args, params), name, args, **what)

    stages: Any = jax.stages
    run_compiled = stages.Compiled.__call__

    @functools.wraps(run_compiled)
    def run_and_record(compiled: Any, *args: Any, **kwargs: Any) -> Any:
        made_of = compiled.__dict__.get("_maxview_made_of")
        leaves = jax.tree_util.tree_leaves((args, kwargs))
        if not tape.is_on or made_of is None or len(leaves) != len(jaxprs.open_body(made_of[0])[0].invars):
            return run_compiled(compiled, *args, **kwargs)
        return tape.record(
            lambda: run_compiled(compiled, *args, **kwargs), made_of[1], leaves, jaxpr=made_of[0],
            traceback=current().traceback,
        )  # fmt: skip

    pjit._pjit_call_impl_python, pjit._get_fastpath_data = call_and_record, no_fast_path
    eager.process_primitive = bind_and_record
    stages.Compiled.__call__ = run_and_record
    return ""
