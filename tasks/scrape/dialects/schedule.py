"""Collects pipeline schedule events (`rank 6 forward start tensor 0`) and summarises each rank's operations.

The events have no times, so time is counted in intervals between consecutive events of all ranks. A rank's idle share
is the share of the intervals, from the rank's first event to its last, in which the rank has no operation in flight.
"""

import re
from typing import Any

from tasks.scrape.prefixes import is_glued, line_before
from tasks.scrape.table.step_table import StepTable
from tasks.scrape.window import Window

OPERATION = rb"rank \d+ (?:forward|backward)\b"
_COUNT = rb"(0|[1-9]\d{0,8})"
_EVENT = re.compile(rb"rank %s (forward|backward) (start|finished) tensor %s(?=\s|rank \d|\[|\Z)" % (_COUNT, _COUNT))


class ScheduleLog:
    """Collects the events of all ranks, in log order."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.glued: set[int] = set()  # numbers of the lines that contain several events or records

    def take(self, position: int, window: Window, table: StepTable) -> bool:
        """Read the event at a position; returns False if the event is damaged or may be cut."""
        match = _EVENT.match(window.data, position)
        if match is None or (window.last and match.end() == len(window.data)):
            return False
        place = window.place(position)
        if is_glued(line_before(window.data, position)):
            self.glued.add(place["line"])
        self.events.append({
            "rank": int(match[1]), "direction": match[2].decode(), "event": match[3].decode(), "tensor": int(match[4]),
            "after_iteration": table.step_before(place["offset"]), **place,
        })  # fmt: skip
        return True

    def by_rank(self) -> dict[int, dict[str, Any]]:
        """Return, per rank: started and finished operations per direction, operations in flight at the end, idle share.

        The idle share is None for a rank with one event.
        """
        final = {event["rank"]: index for index, event in enumerate(self.events)}
        first = {event["rank"]: index for index, event in reversed(list(enumerate(self.events)))}
        busy = dict.fromkeys(final, 0)
        running: dict[int, dict[tuple[str, int], dict[str, Any]]] = {rank: {} for rank in final}
        counts = {rank: {way: {"started": 0, "finished": 0} for way in ("forward", "backward")} for rank in final}
        for index, event in enumerate(self.events):
            for rank, operations in running.items():  # counts the interval that ends with this event
                busy[rank] += bool(operations) and index <= final[rank]
            rank, key = event["rank"], (event["direction"], event["tensor"])
            if event["event"] == "start":
                running[rank][key] = event
            else:
                running[rank].pop(key, None)
            counts[rank][event["direction"]]["started" if event["event"] == "start" else "finished"] += 1
        return {
            rank: {
                **counts[rank],
                "idle_share": round(1 - busy[rank] / (last - first[rank]), 6) if last > first[rank] else None,
                "in_flight": [{key: event[key] for key in ("direction", "tensor", "line", "offset")}
                              for event in running[rank].values()],
            }
            for rank, last in sorted(final.items())
        }  # fmt: skip
