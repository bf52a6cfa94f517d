"""Compares the observed training steps of two arms (versions of a trainer) tensor by tensor, and finds the roots.

Both steps were evaluated in float64, and tensors are equal that differ by no more than rounding.

A root is a place at which the arms begin to differ: an argument, two operations that read equal tensors but differ, an
operation that only one arm has, or a random draw with another key. A row is one tensor of a step.
"""

import difflib
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from questions.explain.argument_roots import pair_arguments
from questions.explain.arm_values import ArmValues, Divergence, name_results
from questions.explain.changed_calls import name_changed_calls
from questions.explain.describe_root import (
    PlacedRoot,
    describe_extra,
    describe_pair,
    describe_result,
    describe_returned,
    equal_up_to,
)
from questions.explain.tensor_rows import TensorRow, read_steps
from tasks.observe.recorder import read_observation
from tasks.records.observation import Observation, OnlyHere, Root, TensorComparison
from tasks.records.text import counted

STOP = "stop_gradient"  # changes no forward value, only gradients


def compare_tensors(
    baseline: Path,
    candidate: Path,
    names: tuple[str, str] = ("baseline", "candidate"),
    *,
    starts_shared: bool = False,
) -> TensorComparison:
    """Return the comparison of the observations in two folders; only of the arguments if one has no tensors.

    starts_shared: the judged runs started with equal arguments too, so replaced arguments explain nothing.
    """
    observations = read_observation(baseline, names[0]), read_observation(candidate, names[1])
    notes = [f"{name}: {note}" for name, found in zip(names, observations, strict=True) for note in found.notes]
    given_roots, given = pair_arguments(observations[0], observations[1], names, starts_shared=starts_shared)
    notes += _versions(observations, names)
    if not all(found.tensors for found in observations):
        missing = next(name for name, found in zip(names, observations, strict=True) if not found.tensors)
        sentence = f"the tensors of {missing} were not observed" + (f": {notes[0]}" if notes else "")
        return TensorComparison(sentence=sentence, notes=tuple(notes), **given)
    steps = read_steps((baseline, candidate))
    rows = [[step.rows[n] for n in sorted(step.live)] for step in steps]
    arms = [ArmValues(observation, step) for observation, step in zip(observations, steps, strict=True)]
    left, right = Divergence(arms[0], arms[1]), Divergence(arms[1], arms[0])
    found = name_changed_calls(find_roots(left, right), arms)
    roots = (*given_roots, *group_roots(found))
    first = next((root for root in roots if root.kind != "argument"), None)
    results = different_results(observations) if not found and not left.divergent and not right.divergent else ()
    equal = sum((Counter(row.value for row in rows[0]) & Counter(row.value for row in rows[1])).values())
    divergent = max(len(side.divergent - side.own_draws.derived) for side in (left, right))
    handed_over = len(left.own_draws.keys.keys() - left.divergent)  # evaluated with the other arm's draws: equal
    comparison = TensorComparison(
        sentence="",
        first=first,
        roots=roots,
        equal_up_to=equal_up_to(steps[0].rows, found[0].order) if found else "",
        tensors=(len(rows[0]), len(rows[1])),
        equal=equal,
        consequences=max(0, divergent + handed_over - len(found)),
        only=list_only(rows[0], rows[1]),
        different_results=results,
        notes=tuple(notes),
        **given,
    )
    return comparison.replace(sentence=summarise_tensors(comparison))


def find_roots(left: Divergence, right: Divergence) -> list[PlacedRoot]:
    """Return all roots among the operations: of results that differ first, detours last, in the baseline's order.

    Of these, what reads proved rows comes first: a batch that is split into parts has other rows from the start.
    """
    is_proved = bool(left.proved or right.proved)
    if is_proved and not left.frontier and not right.frontier:  # all that is divergent leads to an equal loss
        if made := list(_pair_results(left, right)):
            return made
        left.trust(frozenset())
        right.trust(frozenset())
    pairs = pair_divergent(left, right, pair_frontiers(left, right))
    front, paired = set(right.frontier), set(pairs.values())
    found = []
    for n in left.frontier:
        partner = pairs.get(n)
        if partner is None:
            found.append(describe_extra(left, n, float(n), of_candidate=False))
        elif partner in front:
            found.append(describe_pair(left, right, n, partner))
    for n in right.frontier:
        if n not in paired:
            found.append(describe_extra(right, n, _order(left, right, n), of_candidate=True))
    if not found:  # both frontiers are paired with rows behind them, as where the arms permute other tensors
        found += [describe_extra(left, n, float(n), of_candidate=False) for n in left.frontier]
        found += [describe_extra(right, n, _order(left, right, n), of_candidate=True) for n in right.frontier]
    if not found:
        found += _pair_returned(left, right)
    if left.divergent or right.divergent:
        found += _find_lone_stops(left, right)
    return sorted(found, key=_rank)


def _rank(item: PlacedRoot) -> tuple[bool, bool, bool, bool, float, str]:
    is_proved = item.is_of_result and item.is_behind_proof
    return item.is_detour, not is_proved, item.is_behind_other, not item.is_of_result, item.order, item.root.kind


def _pair_results(left: Divergence, right: Divergence) -> Iterator[PlacedRoot]:
    """Yield a root for each result of the forward pass that differs: such as a mean over one part of the batch."""
    theirs = right.arm.forward_results
    for key, n in sorted(left.arm.forward_results.items(), key=lambda item: item[1]):
        partner = theirs.get(key)
        if partner is not None and left.arm.rows[n].value != right.arm.rows[partner].value:
            yield describe_result(left, right, n, partner, key[1])


def _pair_returned(left: Divergence, right: Divergence) -> Iterator[PlacedRoot]:
    """Yield a root for each result for which the arms return other tensors that both have: such as an old statistic."""
    theirs = right.arm.returned
    for (role, meaning), ours in left.arm.returned.items():
        other = theirs.get((role, meaning))
        if other is None:
            continue
        values = left.arm.value_of(ours), right.arm.value_of(other)
        both = left.arm.values & right.arm.values
        if values[0] == values[1] or not both.issuperset(values):  # else it is a consequence of other arguments
            continue
        if ours[0] == "row":
            yield describe_returned(left, right, (ours, other), meaning)
        elif other[0] == "row":
            yield describe_returned(right, left, (other, ours), meaning, of_candidate=True)


def _find_lone_stops(left: Divergence, right: Divergence) -> list[PlacedRoot]:
    """Return a root for each `stop_gradient` that only one arm has. It changes no forward value, only gradients."""
    sides = left, right
    stops = [[n for n in sorted(side.arm.step.live) if side.arm.rows[n].operation == STOP] for side in sides]
    found = []
    for arm, (side, other) in enumerate(((left, right), (right, left))):
        # elements are counted, by function: a loop over parts of a batch, and layers that are written out, have as many
        quota = _count_elements(side, stops[arm]) - _count_elements(other, stops[1 - arm])
        for n in _order_stops(side, stops[arm], other, stops[1 - arm]):
            row = side.arm.rows[n]
            if quota[row.function] > 0:
                quota[row.function] -= row.elements
                order = _order(left, right, n) if arm else float(n)
                # in a part that the other arm computes in another way, it may stop what nothing differentiates
                is_detour = row.value not in other.arm.values
                one = describe_extra(side, n, order, of_candidate=bool(arm), stops=True)
                found.append(replace(one, is_detour=is_detour))
    return found


def _order_stops(side: Divergence, mine: Sequence[int], other: Divergence, theirs: Sequence[int]) -> list[int]:
    """Return one arm's stops: of types that the other arm's function has less of first, then of values that it lacks.

    Values may differ as a consequence of an earlier difference.
    """
    counts = [Counter((one.arm.rows[n].function, one.arm.rows[n].type) for n in its)
              for one, its in ((side, mine), (other, theirs))]  # fmt: skip
    more = counts[0] - counts[1]
    rows = side.arm.rows
    return sorted(mine, key=lambda n: (not more[rows[n].function, rows[n].type], rows[n].value in other.arm.values))


def _count_elements(side: Divergence, numbers: Iterable[int]) -> Counter[str]:
    """Return function → elements of the rows with these numbers."""
    found: Counter[str] = Counter()
    for n in numbers:
        found[side.arm.rows[n].function] += side.arm.rows[n].elements
    return found


def _find_surplus(
    baseline: Sequence[TensorRow], candidate: Sequence[TensorRow], key: Callable[[TensorRow], Hashable]
) -> Iterator[tuple[int, int]]:
    """Count the rows of both arms by `key`; yield (arm, index) of each row that an arm has in excess.

    arm: 0 for the baseline, 1 for the candidate. Among rows of one key, the rows with new values are yielded first.
    """
    for arm, (rows, others) in enumerate(((baseline, candidate), (candidate, baseline))):
        quota, known = Counter(map(key, rows)) - Counter(map(key, others)), {row.value for row in others}
        for n, row in sorted(enumerate(rows), key=lambda item: item[1].value in known):
            if quota[key(row)] > 0:
                quota[key(row)] -= 1
                yield arm, n


def _order(left: Divergence, right: Divergence, n: int) -> float:
    """Return the baseline's position of the candidate's row `n`: half a row after the last common tensor before `n`.

    -0.5 if no common tensor comes before.
    """
    places = {row.value: place for place, row in reversed(list(enumerate(left.arm.rows)))}
    for before in range(n - 1, -1, -1):
        if (place := places.get(right.arm.rows[before].value)) is not None:
            return place + 0.5
    return -0.5


def different_results(observations: Sequence[Observation]) -> tuple[str, ...]:
    """Return the meanings of the compiled steps' results that differ between the arms."""
    left, right = (
        dict(zip(name_results(found), (one.digest for one in found.results), strict=True)) for found in observations
    )
    return tuple(meaning[1] for meaning in left if meaning in right and left[meaning] != right[meaning])


def _versions(observations: Sequence[Observation], names: tuple[str, str]) -> list[str]:
    left, right = (found.software.get("jax") for found in observations)
    if left == right or left is None or right is None:
        return []
    return [
        f"{names[0]} runs JAX {left}, {names[1]} JAX {right}: their operations may be other ones for one computation"
    ]


def summarise_tensors(comparison: TensorComparison) -> str:
    """Return the result of the comparison in one line."""
    if comparison.first is not None:
        begin = f"equal up to {comparison.equal_up_to}; " if comparison.equal_up_to else ""
        alone = all(root.kind == "key" for root in comparison.roots) and not comparison.consequences
        end = "; all tensors behind the draws are equal in float64" if alone else ""
        return f"{begin}the first that differs: {comparison.first.sentence}{end}"
    if comparison.different_results:
        first = comparison.different_results[0]
        many = counted(len(comparison.different_results), "result")
        return f"one function in float64; as run, the arms round differently: {many} of the step, first {first}"
    if comparison.roots:
        return comparison.roots[0].sentence
    if comparison.different_arguments:
        return "no tensor differs from equal ones; only what the step is given does"
    count, other = comparison.tensors
    all_of = f"all {count} tensors" if count == other == comparison.equal else f"{comparison.equal} tensors of both"
    return f"{all_of} are equal in float64"


# Limit of rows of an arm per path and pass; later rows stay unpaired unless all keys are equal. The time grows with
# the square of the number of rows.
_MAX_ROWS = 6000
_KEYS: tuple[Callable[[TensorRow], str], ...] = (  # rows with equal keys are paired, by the strictest key first
    lambda row: f"{row.operation}|{row.type}|{row.params}|{row.function}|{row.output}",
    lambda row: f"{row.operation}|{row.type}|{row.output}",
    lambda row: f"{row.operation}|{row.function}|{row.output}",
)


def pair_frontiers(left: Divergence, right: Divergence) -> dict[int, int]:
    """Return left → right for frontier rows (see `Divergence`) that read the same tensors; equal operations first.

    Both rows have the same path (loops and calls) and pass. Draws with keys that only their arm has are paired by path,
    pass and type.
    """
    pairs: dict[int, int] = {}
    for with_operation in (True, False):
        spare: dict[tuple[object, ...], list[int]] = defaultdict(list)
        taken = set(pairs.values())
        for n in right.frontier:
            if n not in taken:
                spare[_signature(right, n, with_operation)].append(n)
        for n in left.frontier:
            found = spare.get(_signature(left, n, with_operation))
            if n not in pairs and found:
                pairs[n] = found.pop(0)
    return pairs


def _signature(divergence: Divergence, n: int, with_operation: bool) -> tuple[object, ...]:
    row, inputs = divergence.arm.rows[n], divergence.arm.inputs(divergence.arm.rows[n])
    if n in divergence.own_draws.keys:
        return row.operation, row.path, row.direction, row.type, row.output
    if with_operation:
        return row.operation, row.path, row.direction, inputs, row.output
    # rows without inputs would all match each other, so they match only if their row numbers are equal
    return row.path, row.direction, inputs or n, row.output


def pair_divergent(left: Divergence, right: Divergence, paired: dict[int, int]) -> dict[int, int]:
    """Return `paired`, and further pairs of divergent rows, aligned in order per path (loops and calls) and pass.

    What leads to an equal loss has no other partner.
    """
    pairs, taken = dict(paired), set(paired.values())
    theirs = _by_region(right, (n for n in right.divergent - right.proved if n not in taken))
    for region, ours in _by_region(left, (n for n in left.divergent - left.proved if n not in pairs)).items():
        rest = ours, theirs.get(region, [])
        for key in _KEYS:
            keys = [[key(side.arm.rows[n]) for n in its] for side, its in zip((left, right), rest, strict=True)]
            found = _align(*rest, *keys)
            pairs.update(found)
            used = set(found.values())
            rest = [n for n in rest[0] if n not in found], [n for n in rest[1] if n not in used]
    return pairs


def _by_region(divergence: Divergence, numbers: Iterable[int]) -> dict[tuple[str, str], list[int]]:
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for n in sorted(numbers):
        row = divergence.arm.rows[n]
        found[row.path, row.direction].append(n)
    return found


def _align(
    ours: Sequence[int], theirs: Sequence[int], our_keys: Sequence[str], their_keys: Sequence[str]
) -> dict[int, int]:
    if our_keys == their_keys:
        return dict(zip(ours, theirs, strict=True))
    matcher = difflib.SequenceMatcher(None, our_keys[:_MAX_ROWS], their_keys[:_MAX_ROWS], autojunk=False)
    found: dict[int, int] = {}
    for block in matcher.get_matching_blocks():
        found.update(zip(ours[block.a : block.a + block.size], theirs[block.b : block.b + block.size], strict=True))
    return found


MAX_ROOTS, MAX_ONLY = 40, 40  # limit of groups of roots; limit of entries of `list_only` per arm
_ARMS: tuple[Literal["baseline", "candidate"], ...] = ("baseline", "candidate")


def group_roots(found: Sequence[PlacedRoot]) -> list[Root]:
    """Return one root for each source line, pass, operation and reason, with its count; at most MAX_ROOTS."""
    groups: dict[tuple[str, ...], list[Root]] = {}
    for item in found:
        groups.setdefault(item.group, []).append(item.root)
    roots = []
    for members in list(groups.values())[:MAX_ROOTS]:
        first = members[0]
        more = f" ({len(members)} times)" if len(members) > 1 else ""
        roots.append(first.replace(count=len(members), sentence=first.sentence + more))
    return roots


def list_only(baseline: Sequence[TensorRow], candidate: Sequence[TensorRow]) -> tuple[OnlyHere, ...]:
    """Return the operations that a function has more often in one arm than in the other arm, by source line.

    Counts operations, not values, because values may differ only as a consequence of an earlier difference.
    """
    surplus = list(
        _find_surplus(baseline, candidate, lambda row: (row.operation, row.type, row.function, row.direction))
    )
    found: list[OnlyHere] = []
    for arm, rows in enumerate((baseline, candidate)):
        lone = (rows[n] for side, n in surplus if side == arm)
        counts = Counter((row.operation, row.type, row.place, row.direction) for row in lone)
        found += [
            OnlyHere(arm=_ARMS[arm], operation=operation, type=kind, place=place, direction=direction, count=count)
            for (operation, kind, place, direction), count in counts.most_common(MAX_ONLY)
        ]
    return tuple(found)
