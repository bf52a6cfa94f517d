"""Makes the record of invariants for one request: plans, evaluates, and looks for the first tensor that differs."""

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from configs.questions import find_functions
from questions.invariants.dropped_arguments import find_dropped
from questions.invariants.evaluate_twins import LANES, Say, evaluate_twins, plant_changes, sides_of_pair
from questions.invariants.invariants_options import InvariantsOptions
from questions.invariants.twin_files import Twin
from questions.invariants.twin_plans import (
    NAME,
    TwinPair,
    command_of,
    name_trainer,
    plan_twins,
)
from questions.invariants.twin_records import MARKS, InvariantsRecord, Planted, TwinResult
from tasks.experiments.observe_arm import recorded_source
from tasks.programs.compare_lowered import compare_program_files
from tasks.records.observation import PROGRAM
from tasks.resolve.plans import hash_identity

EXPLAINED = "explained"
MAX_PROVED = 10  # twins that get planted changes: three faults and a refactoring each
MAX_EXPLAINED = LANES  # twins whose first tensor is looked for: each takes as long as both its recordings, twice


def make_record(
    request: InvariantsOptions, twins: Sequence[Twin], out: Path, say: Say = lambda _: None
) -> InvariantsRecord:
    """Return the answers for a request. out: the store's folder, which keeps recordings and results.

    With `prove`, also plants known faults. Raises ConfigError, CheckoutError, SoftwareError.
    """
    began = time.monotonic()
    pairs, trainer = plan_twins(request, twins, out)
    by_name = {(pair.twin.name, pair.case): pair for pair in pairs}
    folder = out / NAME
    found: dict[tuple[str, str], TwinResult] = {}
    for result in evaluate_twins(pairs, folder, say):
        found[result.twin, result.case] = result
        if result.answer != "not applicable":
            say(f"{MARKS[result.answer]} {result.title} · {result.case}: {result.sentence}")
    results = [found[pair.twin.name, pair.case] for pair in pairs]
    broken = [one for one in results if one.answer == "another"]
    for one in broken[:MAX_EXPLAINED]:
        say(f"looking for the first tensor of {one.title}")
        pair = by_name[one.twin, one.case]
        first = find_first(pair, folder / EXPLAINED, one.states) or find_place_of_unread(pair, folder, one.unread)
        if not first and pair.twin.resume is not None and one.states:
            first = find_other_line(pair, folder)
        found[one.twin, one.case] = one.replace(first=first)
    results = [found[pair.twin.name, pair.case] for pair in pairs]
    planted: list[Planted] = []
    if request.prove:
        held = [
            by_name[one.twin, one.case]
            for one in results
            if one.answer == "same" and by_name[one.twin, one.case].twin.trains
        ]
        planted = list(plant_changes(held[:MAX_PROVED], folder, say))
    version = name_trainer(trainer, pairs)
    created = datetime.now(UTC).isoformat(timespec="seconds")
    facts = {"trainer": request.trainer, "version": version}
    following = ""
    if broken:
        following = command_of(request, by_name[broken[0].twin, broken[0].case].twin, broken[0].case) + " --full"
    return InvariantsRecord(
        id=hash_identity(facts | request.model_dump() | {"twins": [twin.name for twin in twins]})[:10],
        commit=trainer.commit if trainer else None,
        created=created,
        results=tuple(results),
        planted=tuple(planted),
        next=following,
        seconds=round(time.monotonic() - began, 1),
        **facts,
    )


def find_place_of_unread(pair: TwinPair, folder: Path, unread: Mapping[str, str]) -> str:
    """Return the place that drops an argument of the step; "" if none is found. unread: as in `TwinResult`."""
    left, right = sides_of_pair(pair, folder)
    for meaning, side in unread.items():
        own = right if side == "right" else left
        root = recorded_source(own.plan, own.folder) or str(Path(__file__).parents[2])
        if place := find_dropped(own.folder / PROGRAM, meaning, root):
            return place
    return ""


def find_other_line(pair: TwinPair, folder: Path) -> str:
    """Return the first line at which the programs of a resumed process and of an uninterrupted one differ, or ""."""
    sides = sides_of_pair(pair, folder)
    roots = [recorded_source(one.plan, one.folder) or str(Path(__file__).parents[2]) for one in sides]
    files = [one.folder / PROGRAM for one in sides]
    try:
        found = compare_program_files(files[0], files[1], roots=(roots[0], roots[1]))
    except (OSError, ValueError):
        return ""
    lines = (one.candidate_line or one.baseline_line for one in found.operations)
    return next((f"{line.file}:{line.line}" for line in lines if line is not None), "")


def find_first(pair: TwinPair, folder: Path, states: Sequence[str]) -> str:
    """Return the first tensor that differs in float64, with its line; "" if it is not found.

    states: the names of the steps at which results differ.
    Starts both sides once more, and evaluates their steps operation by operation.
    """
    assert pair.plans is not None
    if pair.twin.is_about_more:
        return ""  # both sides are one program or one setting there
    own = folder / f"{pair.plans[0].identity}-{pair.plans[1].identity}"
    explain = find_functions("explain_plans")
    tensors = explain[0](pair.plans, ("left", "right"), own, states=states).tensors if explain else None
    if (
        tensors is None
        or tensors.first is None
        or any("rng" not in name.lower() for name in tensors.different_arguments)
    ):
        return ""  # from different arguments, such as a batch in another shape, all tensors differ
    first = tensors.first
    place = f"{first.file}:{first.line}" if first.line else first.file
    by = f" by {first.made_by}" if first.made_by else ""
    return f"{place} ({first.operation}{by}{f' after {first.after}' if first.after else ''})"
