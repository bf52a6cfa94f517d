"""Follows the arrays of a training loop between the recorded calls of its step: who else writes what it trains.

An array is followed by identity, from the call that returns it to the call that takes it. Work outside of jitted
functions leaves no call: it shows in arguments that no call returned, and in the arrays that are alive.
"""

import hashlib
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from maxview_probe.observe import jaxprs
from maxview_probe.observe.places import place_of_caller

LEAST_VALUES, CORRELATED = 16, 0.5  # of an array that may tell whether it is a batch; least correlation of a state
MAX_FUNCTIONS = 20  # other functions whose programs are read
MAX_TEXTS = 4  # programs of the step whose texts are compared; more are counted as other programs


@dataclass
class Made:
    """The origin of a living array."""

    array: Any  # weak reference
    maker: str  # name of the function that returned it
    iteration: int  # number of the step's calls before
    follows: bool  # whether it was made from results of the step, or of itself


class LoopFunctions:
    """The calls of a loop, from the step's first recorded call on."""

    def __init__(self, step: str, is_recorded: Callable[[Any], bool] = lambda array: False):
        """is_recorded: whether the call or operation that made an array is recorded."""
        self.step, self.iteration, self.is_recorded = step, 0, is_recorded
        self.made: dict[int, Made] = {}
        self.calls: Counter[str] = Counter()
        self.carried: Counter[str] = Counter()  # function → most floats that one call takes from an earlier iteration
        self.fed: Counter[str] = Counter()  # function → most arrays of the step's state that it returned
        # place of an argument of the step that was a result of the step before → that result's place
        self.state: dict[int, int] = {}
        # place of an argument that no jitted function returned → per call, whether it seems to be the step's state
        self.outside: dict[int, list[bool]] = {}
        self.held: dict[int, Any] = {}  # place → the values of such an argument in the last call
        self.renewed: list[list[Any]] = []  # per iteration: weak references to floats of the host that are new
        self.unrecorded: list[list[Any]] = []  # those of them that no recorded operation made
        self.before: dict[int, Any] = {}  # arrays alive before the last call: id → weak reference
        self.results: list[Any] = []  # of the step's last call
        self.last: list[Any] = []  # its arguments; weak references, or the values themselves
        self.programs: list[Any] = []  # distinct jaxprs of the step
        self.changed_at: list[int] = []  # calls with another program than the ones before
        self.types: list[str] = []  # of the first call's arguments
        # (call, place of its first argument of another type than in the first call, or -1, both types)
        self.retyped: list[tuple[int, int, str, str]] = []
        self.callbacks: Counter[str] = Counter()
        self.functions: list[Any] = []  # jitted after the first call of the step; kept alive, or an id is used again
        self.jits: Counter[tuple[str, int, str, str]] = Counter()  # source line → function objects
        self.jitted: dict[int, tuple[str, Any, str]] = {}  # other functions: id → (name, itself, digest of its program)

    def before_step(self, closed: Any, leaves: Sequence[Any]) -> bool:
        """Note the arguments of the step's next call; return whether it runs the same program as the first call."""
        same = self._note_program(closed, [_name_type(leaf) for leaf in leaves])
        if self.iteration:
            self._note_arguments(leaves)
            self._note_living(leaves)
        else:
            self.before = {id(one): weakref.ref(one) for one in jax.live_arrays()}
            for equation in jaxprs.equations(closed.jaxpr):
                if "callback" in equation.primitive.name and equation.outvars:
                    self.callbacks[_name_callback(equation)] += 1
        self.last = [weakref.ref(one) if isinstance(one, jax.Array) else one for one in leaves]
        self.results = []
        self.iteration += 1
        return same

    def after_step(self, results: Any) -> None:
        """Note the results of the step's call."""
        self.results = [one for one in jax.tree_util.tree_leaves(results) if isinstance(one, jax.Array)]
        self._label(self.results, self.step, follows=True)

    def after_other(self, name: str, given: Any, results: Any) -> None:
        """Note the call of another function, between two calls of the step."""
        if not self.iteration:
            return
        leaves = jax.tree_util.tree_leaves(results)
        if any(isinstance(one, jax.core.Tracer) for one in leaves):
            return
        self.calls[name] += 1
        follows, carried = False, Counter[str]()
        for leaf in jax.tree_util.tree_leaves(given):
            if (made := self._origin(leaf)) is not None:
                is_old = made.iteration < self.iteration and made.maker != self.step
                carried[made.maker] += is_old and _is_array_of_floats(leaf)
                follows |= made.follows
        for maker, count in carried.items():
            self.carried[maker] = max(self.carried[maker], count)
        self._label(leaves, name, follows=follows or bool(carried.total()))

    def is_new(self, jitted: Any) -> bool:
        """Return whether a function was not called before."""
        return bool(self.iteration) and id(jitted) not in self.jitted and len(self.jitted) < MAX_FUNCTIONS

    def note_program(self, name: str, jitted: Any, args: Any, kwargs: Any) -> None:
        """Note the program of another function's first call."""
        self.jitted[id(jitted)] = (name, jitted, "")
        text = jitted.lower(*args, **kwargs).as_text()
        digest = hashlib.sha256(text.partition("{")[2].encode()).hexdigest()[:16]
        self.jitted[id(jitted)] = (name, jitted, digest)

    def note_jit(self, function: Any) -> None:
        """Count, by source line, the function objects that are jitted anew: JAX compiles the program of each."""
        if not any(one is function for one in self.functions):
            self.functions.append(function)
            file, line, name, short = place_of_caller()
            self.jits[file, line, name, short] += 1

    def _digest_others(self) -> dict[str, str]:
        """Return function → digest of its program; "" if its calls need several programs."""
        found: dict[str, str] = {}
        for name, jitted, digest in self.jitted.values():
            size = jitted._cache_size() if hasattr(jitted, "_cache_size") else 2
            one = digest if size <= 1 and found.get(name, digest) == digest else ""
            found[name] = one
        return found

    def describe(self) -> dict[str, Any]:
        """Return the JSON object of the loop; see `LoopRecord`."""
        writers = {
            name: max(self.carried[name], self.fed[name])
            for name in {*self.carried, *self.fed}
            if name != self.step and max(self.carried[name], self.fed[name]) and (self.calls[name] > 1)
        }
        outside = {place for place, seen in self.outside.items() if 2 * sum(seen) > len(seen)}
        renewed = [len(found) for found in self.renewed if found]
        unrecorded = [len(found) for found in self.unrecorded if found]
        return {
            "calls": self.iteration,
            "others": dict(self.calls.most_common()),
            "writers": writers,
            "outside": len(outside - self._find_accumulators(outside)),
            "beside": min(renewed) if len(renewed) > 1 else 0,
            "unrecorded": min(unrecorded) if len(unrecorded) > 1 else 0,
            "programs": len(self.programs),
            "changed_at": self.changed_at,
            "retyped": self.retyped,
            "callbacks": dict(self.callbacks),
            "digests": self._digest_others(),
            "jits": [[*place, count] for place, count in self.jits.items() if count > 1],
        }

    def _find_accumulators(self, places: Collection[int]) -> set[int]:
        """Return the arguments that only their own next values read, as a metric that the host resets each epoch."""
        from jax._src.interpreters import partial_eval  # JAX has no public analysis of what a result reads

        jaxpr = jaxprs.open_body(self.programs[0])[0] if self.programs else None
        if jaxpr is None or (len(self.last), len(self.results)) != (len(jaxpr.invars), len(jaxpr.outvars)):
            return set()
        found = {place for place in places if place in self.state}
        while found:
            own = {self.state[place] for place in found}
            _, read = partial_eval.dce_jaxpr(jaxpr, [output not in own for output in range(len(jaxpr.outvars))])
            if not any(read[place] for place in found):
                break
            found = {place for place in found if not read[place]}
        return found

    def _label(self, leaves: Sequence[Any], maker: str, *, follows: bool) -> None:
        for leaf in leaves:
            if isinstance(leaf, jax.Array):
                self.made[id(leaf)] = Made(weakref.ref(leaf), maker, self.iteration, follows)

    def _origin(self, leaf: Any) -> Made | None:
        made = self.made.get(id(leaf))
        return made if made is not None and made.array() is leaf else None

    def _note_program(self, closed: Any, types: list[str]) -> bool:
        if not self.programs:
            self.programs.append(closed)
            self.types = types
        if any(closed is one for one in self.programs):
            same = closed is self.programs[0]
        else:
            few = self.programs[:MAX_TEXTS]
            same = any(str(closed.jaxpr) == str(one.jaxpr) for one in few)
            if not same:
                pairs = enumerate(zip(self.types, types, strict=False))
                place = next((n for n, (before, now) in pairs if before != now), -1)
                both = (self.types[place], types[place]) if place >= 0 else ("", "")
                self.retyped.append((self.iteration, place, *both))
                self.programs.append(closed)
        if not same:
            self.changed_at.append(self.iteration)
        return same

    def _note_arguments(self, leaves: Sequence[Any]) -> None:
        """Count the arguments that belong to the state, and that neither the step nor nobody has written."""
        own = {id(one): output for output, one in enumerate(self.results)}
        shapes = {one.shape for one in self.results if _is_array_of_floats(one)}
        fed = Counter[str]()
        for place, (leaf, last) in enumerate(zip(leaves, self.last, strict=False)):
            before = last() if isinstance(last, weakref.ref) else last
            if id(leaf) in own:
                self.state[place] = own[id(leaf)]
            if id(leaf) in own or leaf is before:
                continue
            made, is_state = self._origin(leaf), place in self.state
            if made is not None:
                fed[made.maker] += (made.follows or is_state) and made.maker != self.step
            elif (is_state or (_is_array_of_floats(leaf) and leaf.shape in shapes)) and not self._is_copy(leaf, before):
                self.outside.setdefault(place, []).append(is_state or self._is_related(place, leaf))
        for maker, count in fed.items():
            self.fed[maker] = max(self.fed[maker], count)

    def _is_related(self, place: int, leaf: Any) -> bool:
        """Return whether an argument seems to be made from a result of the last step, or from the argument before it.

        A batch may have the shape of a weight; it correlates with neither. Few or constant values do not tell.
        """
        results = [one for one in self.results if one.shape == np.shape(leaf) and _is_array_of_floats(one)]
        if any(one.is_deleted() for one in results) or np.size(leaf) < LEAST_VALUES:
            return True
        now = np.ravel(np.asarray(leaf, np.float64))
        before, self.held[place] = self.held.get(place), now
        alike = [np.ravel(np.asarray(one, np.float64)) for one in results] + ([] if before is None else [before])
        if any(one.std() == 0 for one in (now, *alike)):
            return True
        return any(abs(np.corrcoef(now, one)[0, 1]) > CORRELATED for one in alike)

    def _is_copy(self, leaf: Any, before: Any) -> bool:
        """Return whether an argument has the values of a result of the last step, or of the argument before it.

        As one that was moved to another memory.
        """
        shape = np.shape(leaf)
        alike = [one for one in (*self.results, before) if one is not None and np.shape(one) == shape]
        return any(np.array_equal(one, leaf) for one in alike if not (isinstance(one, jax.Array) and one.is_deleted()))

    def _note_living(self, leaves: Sequence[Any]) -> None:
        """Note the new arrays with the shape of something trained that no jitted function returned."""
        living = {id(one): weakref.ref(one) for one in jax.live_arrays()}
        given = {id(one) for one in leaves}
        shapes = {one.shape for one in leaves if _is_array_of_floats(one) and self._origin(one) is not None}
        new = []
        for key, reference in living.items():
            one = reference()
            known = self.before.get(key)
            if one is None or key in given or (known is not None and known() is one) or self._origin(one) is not None:
                continue
            if _is_array_of_floats(one) and one.shape in shapes:
                new.append(reference)
        for earlier in (*self.renewed, *self.unrecorded):  # a batch that was made ahead
            earlier[:] = [one for one in earlier if id(one()) not in given]
        self.renewed.append(new)
        self.unrecorded.append([one for one in new if not self.is_recorded(one())])
        self.before = living


def _is_array_of_floats(value: Any) -> bool:
    kind = getattr(value, "dtype", None)
    return kind is not None and value.ndim > 0 and jax.numpy.issubdtype(kind, jax.numpy.floating)


def _name_callback(equation: Any) -> str:
    function: Any = equation.params.get("callback")
    while not hasattr(function, "__name__"):
        inner = next((getattr(function, name) for name in ("callback_func", "func") if hasattr(function, name)), None)
        if inner is None:
            return str(equation.primitive.name)
        function = inner
    return str(function.__name__)


def _name_type(leaf: Any) -> str:
    if hasattr(leaf, "dtype") and hasattr(leaf, "shape"):
        return f"{leaf.dtype}[{','.join(map(str, leaf.shape))}]"
    return f"{type(leaf).__name__} of Python"
