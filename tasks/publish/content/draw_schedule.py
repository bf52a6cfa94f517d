"""Draws a pipeline schedule as SVG: a row per rank, a cell per operation, unfinished operations hatched.

The events have no times. The x axis is their order in the log: one unit per event of any rank.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tasks.publish.content.templating import make_environment
from tasks.records import RunReading

PER_STRIP = 64  # events per strip; the strips are drawn below each other
SHOWN = 2_000  # events; only the last ones of a longer schedule are drawn
STEP = 16.5  # px per event; the next lengths are in px, too
LEFT, TOP, LANE, GAP, STRIP_HEAD, STRIP_GAP = 84, 92, 22, 6, 26, 12


@dataclass(frozen=True)
class Operation:
    """One forward or backward pass of a microbatch on a rank, between two events."""

    rank: int
    direction: str  # "forward" or "backward"
    tensor: int  # number of the microbatch
    start: int  # index of the start event; -1 if that event is not drawn
    end: int | None  # index of the end event; None if the pass is unfinished
    lines: str  # the numbers of the log's lines with these events, in words


def draw_schedule(run: RunReading) -> str | None:
    """Return the schedule of a run as SVG text; None if its log has no events."""
    events = run.schedule[-SHOWN:]
    if not events:
        return None
    operations = find_operations(events)
    lanes = assign_lanes(operations)
    ranks = sorted({operation.rank for operation in operations})
    idle = {entry["rank"]: (entry.get("schedule") or {}).get("idle_share") for entry in run.ranks}
    strips: list[dict[str, Any]] = []
    y = float(TOP)
    for begin in range(0, len(events), PER_STRIP):
        strip = _strip(events, operations, lanes, ranks, begin=begin, y=y)
        strips.append(strip)
        y += strip["height"] + STRIP_GAP
    flying = [operation for operation in operations if operation.end is None]
    left_out = len(run.schedule) - len(events)
    template = make_environment().get_template("schedule.svg.j2")
    return template.render(
        name=run.name,
        width=LEFT + PER_STRIP * STEP + 24,
        height=y,
        left=LEFT,
        lane=LANE,
        strips=strips,
        summary=_summary(ranks, idle, flying, len(events), left_out),
    )


def find_operations(events: Sequence[dict[str, Any]]) -> list[Operation]:
    """Pair each start with its finish; return the operations in the order of their starts, unpaired ones too."""
    running: dict[tuple[int, str, int], int] = {}
    found: list[Operation] = []
    for index, event in enumerate(events):
        key = (event["rank"], event["direction"], event["tensor"])
        if event["event"] == "start":
            if key in running:  # a second start: the first operation never finished
                found.append(_operation(key, events, running[key], None))
            running[key] = index
        elif key in running:
            found.append(_operation(key, events, running.pop(key), index))
        else:  # the start is before the log, or before the drawn events
            found.append(_operation(key, events, -1, index))
    found += [_operation(key, events, start, None) for key, start in running.items()]
    return sorted(found, key=lambda operation: (operation.start, operation.rank))


def _operation(key: tuple[int, str, int], events: Sequence[dict[str, Any]], start: int, end: int | None) -> Operation:
    first = f"line {events[start]['line']}" if start >= 0 else "started earlier"
    last = f"to line {events[end]['line']}" if end is not None else "never finished"
    return Operation(*key, start, end, f"{first}, {last}")


def assign_lanes(operations: Sequence[Operation]) -> dict[Operation, int]:
    """Return the lane (line within its rank's row) of each operation; simultaneous ones get different lanes."""
    free: dict[int, list[float]] = {}
    lanes: dict[Operation, int] = {}
    for operation in operations:
        ends = free.setdefault(operation.rank, [])
        lane = next((lane for lane, end in enumerate(ends) if end <= operation.start), len(ends))
        end = float("inf") if operation.end is None else operation.end
        ends[lane : lane + 1] = [end]
        lanes[operation] = lane
    return lanes


def _strip(
    events: Sequence[dict[str, Any]],
    operations: Sequence[Operation],
    lanes: dict[Operation, int],
    ranks: Sequence[int],
    *,
    begin: int,
    y: float,
) -> dict[str, Any]:
    """Return a strip for the template, in px: the rows of all ranks, cells, and marks at the ends of iterations."""
    end = min(begin + PER_STRIP, len(events))
    last = len(events) - 1
    depth = {rank: max(lanes[each] + 1 for each in operations if each.rank == rank) for rank in ranks}
    tracks, cells = [], []
    tops: dict[int, float] = {}
    top = y + STRIP_HEAD
    for rank in ranks:
        tops[rank] = top
        tracks.append({"y": top, "height": depth[rank] * LANE, "label": f"rank {rank}"})
        top += depth[rank] * LANE + GAP
    for each in operations:
        stop = last + 1 if each.end is None else each.end
        first, final = max(each.start, begin), min(stop, end)
        if final <= first:
            continue
        width = (final - first) * STEP - 1
        cells.append({
            "x": LEFT + (first - begin) * STEP,
            "y": tops[each.rank] + lanes[each] * LANE + 1,
            "width": width,
            "kind": each.direction + (" flying" if each.end is None else ""),
            "label": str(each.tensor) if width >= 6 * len(str(each.tensor)) + 3 else "",
            "title": f"rank {each.rank}, {each.direction} of microbatch {each.tensor}: {each.lines}",
        })  # fmt: skip
    text = f"events {begin + 1}–{end}, lines {events[begin]['line']}–{events[end - 1]['line']}"
    size = {"y": y, "height": top - y, "width": (end - begin) * STEP}
    return {**size, "text": text, "tracks": tracks, "cells": cells, "marks": list(_marks(events, begin, end))}


def _marks(events: Sequence[dict[str, Any]], begin: int, end: int) -> Iterator[tuple[float, str]]:
    for index in range(max(begin, 1), end):
        after = events[index]["after_iteration"]
        if after is not None and after != events[index - 1]["after_iteration"]:
            yield LEFT + (index - begin) * STEP, f"iteration {after} printed"


def _summary(
    ranks: Sequence[int], idle: dict[int, float | None], flying: Sequence[Operation], shown: int, left_out: int
) -> str:
    parts = [f"{shown:,} events of {len(ranks)} rank{'s' if len(ranks) != 1 else ''}, in the order of the log"]
    if left_out:
        parts[0] += f" (the {left_out:,} before them are not drawn)"
    shares = [f"rank {rank} {share:.0%}" for rank in ranks if (share := idle.get(rank)) is not None]
    if shares:
        parts.append(f"idle share of the stretches between events: {', '.join(shares)}")
    words = [f"{each.direction} {each.tensor} on rank {each.rank}" for each in flying]
    parts.append(f"in flight at the end: {', '.join(words[:6])}" + ("…" if len(words) > 6 else "") if words else
                 "nothing in flight at the end")  # fmt: skip
    return "; ".join(parts)
