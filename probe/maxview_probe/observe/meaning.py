"""Turns an array's name into its meaning (role and path), equal for Linen and NNX, in checkpoints and arguments.

| array | Linen's `TrainState` | NNX's model and optimizer | canonical path |
|---|---|---|---|
| a parameter | `params.params.X`, `params.X` | `model.X`, `params.X` (and `.value` behind it) | `parameter` X |
| … in a pipeline | `params.params.pipeline_module.X` | `model.pipeline_module.X` | `parameter` X |
| a moment | `opt_state.0.mu.params.X` | `optimizer.opt_state.1.0.mu.X` | `optimizer` mu.X |
| … wrapped by optax | `opt_state.1.inner_state.mu.X` | `optimizer.opt_state.1.inner_state.mu.X` | `optimizer` mu.X |
| a counter | `opt_state.0.count`, `step` | `optimizer.opt_state.1.0.count`, `optimizer.step` | `counter` count, step |
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

ArrayRole = Literal["parameter", "optimizer", "counter", "random numbers", "quantisation", "other state"]
Place: TypeAlias = tuple[ArrayRole, str]  # an array's role and canonical path

_QUANTISATION = re.compile(r"aqt|qwix|quant|_overwrite_with_gradient|fp8|amax_history", re.IGNORECASE)
_RANDOM = re.compile(r"rngs?|RngStream|dropout_rng|key_data", re.IGNORECASE)
_COUNTERS = frozenset({"count", "step", "mini_step", "gradient_step"})
_WORD = re.compile(r"[A-Za-z_][\w-]*|\d+")
# words with which a path inside a training state begins; before them is the name of the argument with the state
_STATE = frozenset({"params", "model", "optimizer", "opt_state", "nnx_aux", *_COUNTERS})
_MOMENT = re.compile(r"\.(?:mu|nu|trace)(?=\W|$)")  # fields of optax's states, also under an argument of any name
_NUMBERED_MOMENT = re.compile(r"(?:\d+\.)+(?=(?:mu|nu|trace)\.)")
_WRAPPED = ("inner_state", "inner_opt_state")  # hold the state of an optimizer that optax wraps: masked, MultiSteps
_VALUE = ("value", "raw_value")
_STAGES = "pipeline_module"  # holds MaxText's layers if they are in a pipeline


def meaning_of_array(name: str) -> Place:
    """Return the role and the canonical path of an array. name: the dotted path in a training state's tree."""
    parts = [part for part in name.split(".") if part != _STAGES] or [name]
    if parts[-1] in _VALUE and len(parts) > 1:
        parts.pop()
    if parts[0] == "optimizer" and len(parts) > 1:
        parts = parts[1:]
    role = _special_role(parts)
    if role is not None:
        return role, ".".join(parts)
    if parts[0] in ("params", "model"):
        parts = parts[1:]
        return "parameter", ".".join(parts[1:] if parts[:1] == ["params"] and len(parts) > 1 else parts)
    if parts[0] == "opt_state":
        kind = next((part for part in parts[1:] if not part.isdigit() and part not in _WRAPPED), "")
        if not kind:  # numbers alone, as of stax
            return "optimizer", ".".join(parts)
        rest = parts[parts.index(kind) + 1 :]
        if kind in _COUNTERS:
            return "counter", kind
        return "optimizer", ".".join([kind, *(rest[1:] if rest[:1] == ["params"] and len(rest) > 1 else rest)])
    return ("counter" if parts[-1] in _COUNTERS else "other state"), ".".join(parts)


def _special_role(parts: Sequence[str]) -> ArrayRole | None:
    """Return the role of an array that is a random key, belongs to quantisation or is in `nnx_aux`, else None."""
    if any(map(_RANDOM.fullmatch, parts)):  # checked first, because quantisation may have a random stream
        return "random numbers"
    if any(map(_QUANTISATION.search, parts)):
        return "quantisation"
    return "other state" if parts[0] == "nnx_aux" else None


def meaning_of(argument: str) -> tuple[str, str]:
    """Return the role and the canonical path of a step's argument. argument: the name, as in the examples.

    `state.params['params']['x']` and `state['model']['x'].value` are both `("parameter", "x")`. Arguments outside of a
    training state are "data", except random keys.
    """
    words = _WORD.findall(argument)
    if len(words) > 1 and words[-1] in _VALUE:
        words.pop()
    if (words and words[-1].endswith("rng")) or any(map(_RANDOM.fullmatch, words)):
        return "random numbers", ".".join(words)
    begins = next((place for place, word in enumerate(words) if word in _STATE), None)
    if begins is not None:
        role, path = meaning_of_array(".".join(words[begins:]))
        if role == "parameter" and (moment := _NUMBERED_MOMENT.match(path)):  # an optimizer's state named `model`
            return "optimizer", path[moment.end() :]
        return role, path
    if moment := _MOMENT.search(argument):
        return "optimizer", ".".join(_WORD.findall(argument[moment.start() :]))
    return "data", ".".join(words[1:] or words)


def meanings_of(arguments: Iterable[str]) -> list[tuple[str, str]]:
    """Return the meaning of each argument; equal meanings are numbered."""
    return number_equal(map(meaning_of, arguments))


R = TypeVar("R")


def number_equal(places: Iterable[tuple[R, str]]) -> list[tuple[R, str]]:
    """Return the places (role, path) in their order, with a number after the path of each repetition: `x`, `x #2`."""
    seen: Counter[tuple[R, str]] = Counter()
    found = []
    for role, path in places:
        seen[role, path] += 1
        found.append((role, path if seen[role, path] == 1 else f"{path} #{seen[role, path]}"))
    return found


def pair_similar(left: Mapping[int, tuple[Any, str]], right: Mapping[int, tuple[Any, str]]) -> dict[int, int]:
    """Return right → left of arrays with equal kinds and similar paths, as two trainers name one array.

    left, right: index → (kind, path); a kind has what must be equal, such as role and shape. Similar paths end with one
    word, and have more words in common with each other than with any other array's path:
    `layers.mlp.wi_0` and `layers.MoeBlock_0.wi_0`.
    """
    ends: dict[Any, tuple[list[int], list[int]]] = {}
    for side, places in enumerate((left, right)):
        for n, (kind, path) in places.items():
            ends.setdefault((kind, path.split(".")[-1]), ([], []))[side].append(n)
    found: dict[int, int] = {}
    for ours, theirs in ends.values():
        common = {(a, b): _count_common(left[a][1], right[b][1]) for a in ours for b in theirs}
        best_a = {a: _only_best({b: common[a, b] for b in theirs}) for a in ours if theirs}
        best_b = {b: _only_best({a: common[a, b] for a in ours}) for b in theirs if ours}
        found |= {b: a for b, a in best_b.items() if a is not None and best_a[a] == b}
    return found


def _count_common(left: str, right: str) -> int:
    return (Counter(left.split(".")) & Counter(right.split("."))).total()


def _only_best(scores: Mapping[int, int]) -> int | None:
    most = [n for n, score in scores.items() if score == max(scores.values())]
    return most[0] if len(most) == 1 else None
