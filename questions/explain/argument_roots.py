"""Compares the arguments of both arms' training steps: weights, optimizer moments, counters, random keys, batches.

An arm is one of the two compared versions of a trainer. A root is a place at which the arms begin to differ. The
candidate's step may have been observed with the baseline's arrays in place of its own. Such arguments are called
replaced.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tasks.records.observation import Observation, ObservedArray, Role, Root
from tasks.records.text import counted

_SHOWN = 5  # limit of argument names in one sentence
_WORDS: Mapping[Role, str] = {
    "parameter": "first weight", "optimizer": "moment of the optimizer", "counter": "counter",
    "random numbers": "key of random numbers", "quantisation": "array of the quantisation",
    "other state": "array of the state", "data": "array of the batch",
}  # fmt: skip


def pair_arguments(
    baseline: Observation, candidate: Observation, names: tuple[str, str], *, starts_shared: bool = False
) -> tuple[tuple[Root, ...], dict[str, Any]]:
    """Pair the arguments by role and meaning; return one root for each role that differs, and the differences.

    The differences are fields of a `TensorComparison`. An argument without a digest counts as different. Replaced
    arguments whose own values differed give a further root for each role. starts_shared: the judged runs, from which
    the verdict comes, started with equal arguments too, so replaced arguments give no root.
    """
    places = [
        {(argument.role, argument.meaning): n for n, argument in enumerate(found.arguments)}
        for found in (baseline, candidate)
    ]
    different: dict[Role, list[tuple[ObservedArray, ObservedArray]]] = {}
    replaced: dict[Role, list[str]] = {}
    for key, ours in places[0].items():
        theirs = places[1].get(key)
        if theirs is None:
            continue
        left, right = baseline.arguments[ours], candidate.arguments[theirs]
        if left.digest is not None and left.digest == right.digest:
            if not starts_shared and right.own_digest not in (None, left.digest):  # it differed before
                replaced.setdefault(left.role, []).append(left.meaning)
        else:
            different.setdefault(left.role, []).append((left, right))
    roots = [_root(role, pairs) for role, pairs in different.items()]
    roots += [_replaced_root(role, meanings, names) for role, meanings in replaced.items()]
    lone = [f"{names[0]}: {baseline.arguments[n].name}" for key, n in places[0].items() if key not in places[1]]
    lone += [f"{names[1]}: {candidate.arguments[n].name}" for key, n in places[1].items() if key not in places[0]]
    return tuple(roots), {
        "different_arguments": tuple(left.meaning for pairs in different.values() for left, _ in pairs),
        "replaced_arguments": sum(argument.own_digest is not None for argument in candidate.arguments),
        "unmatched_arguments": tuple(lone),
    }


def _root(role: Role, pairs: Sequence[tuple[ObservedArray, ObservedArray]]) -> Root:
    left, right = pairs[0]
    kinds = _type_of(left), _type_of(right)
    values = (_values(left), _values(right)) if kinds[0] == kinds[1] else kinds
    verb, shown = "differs" if len(pairs) == 1 else "differ", _name_some([ours.meaning for ours, _ in pairs])
    sentence = f"{counted(len(pairs), _WORDS[role])} {verb} before the step: {shown}; {values[0]} against {values[1]}"
    return Root(
        kind="argument", operation=role, type=kinds[0], count=len(pairs), baseline=values[0], candidate=values[1],
        after=left.meaning, sentence=sentence,
    )  # fmt: skip


def _replaced_root(role: Role, meanings: Sequence[str], names: tuple[str, str]) -> Root:
    verb = "is another" if len(meanings) == 1 else "are others"
    sentence = (
        f"{counted(len(meanings), _WORDS[role])} of {names[1]} {verb} before the step: {_name_some(meanings)}; "
        f"here the step is given those of {names[0]}"
    )
    return Root(kind="argument", operation=role, count=len(meanings), after=meanings[0], sentence=sentence)


def _name_some(meanings: Sequence[str]) -> str:
    return ", ".join(meanings[:_SHOWN]) + (", …" if len(meanings) > _SHOWN else "")


def _type_of(argument: ObservedArray) -> str:
    return f"{argument.dtype}{list(argument.shape)}"


def _values(argument: ObservedArray) -> str:
    if argument.norm is None or argument.mean is None:
        return _type_of(argument)
    return f"norm {argument.norm:.9g}, mean {argument.mean:.6g}"
