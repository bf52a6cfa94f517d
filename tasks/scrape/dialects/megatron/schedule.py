"""Reads pipeline schedule events (`rank 6 forward start tensor 0`) and says what each rank did and had in flight.

The events have no times. Idle share is therefore counted in events: of the stretches between consecutive events of all
ranks, from a rank's first event to its last, the part in which that rank had nothing in flight.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tasks.records import UnreadLine
from tasks.scrape.prefixes import is_glued, line_before
from tasks.scrape.window import Window

_LOOSE = re.compile(rb"rank \d+ (?:forward|backward)\b")
_COUNT = rb"(0|[1-9]\d{0,8})"
_EVENT = re.compile(rb"rank %s (forward|backward) (start|finished) tensor %s(?=\s|rank \d|\[|\Z)" % (_COUNT, _COUNT))


@dataclass
class ScheduleLog:
    """The schedule events so far, in the order of the log."""

    events: list[dict[str, Any]] = field(default_factory=list)
    glued: set[int] = field(default_factory=set)  # lines on which two ranks wrote
    unread: list[UnreadLine] = field(default_factory=list)
    cut: bool = False

    def take(self, window: Window, step_before: Callable[[int], int | None]) -> None:
        """Read the events that start in a window. `step_before`: the iteration of the last row before an offset."""
        data = window.data
        for loose in _LOOSE.finditer(data, window.start):
            position = loose.start()
            if position >= window.limit:
                break
            source = window.source(position)
            match = _EVENT.match(data, position)
            cut = window.last and (match is None or match.end() == len(data)) and window.is_last_line(position)
            if match is None or cut:
                self.cut |= cut
                text = data[position : position + 100].split(b"\n")[0].decode("utf-8", "replace")
                self.unread.append(UnreadLine(line=source.line, offset=source.offset, text=text))
                continue
            if is_glued(line_before(data, position)):
                self.glued.add(source.line)
            self.events.append(
                {
                    "rank": int(match[1]),
                    "direction": match[2].decode(),
                    "event": match[3].decode(),
                    "tensor": int(match[4]),
                    "after_iteration": step_before(source.offset),
                    "line": source.line,
                    "offset": source.offset,
                }
            )

    def by_rank(self) -> dict[int, dict[str, Any]]:
        """What every rank did: operations started and finished, those in flight at the end, its idle share."""
        summaries: dict[int, dict[str, Any]] = {}
        busy: dict[int, int] = {}
        open_now: dict[int, dict[tuple[str, int], dict[str, Any]]] = {}
        bounds: dict[int, tuple[int, int]] = {}
        for index, event in enumerate(self.events):
            rank, key = event["rank"], (event["direction"], event["tensor"])
            for other, running in open_now.items():
                busy[other] += bool(running)  # in the stretch that ends with this event
            summary = summaries.setdefault(rank, _nothing())
            running = open_now.setdefault(rank, {})
            busy.setdefault(rank, 0)
            bounds[rank] = (bounds.get(rank, (index, index))[0], index)
            if event["event"] == "start":
                summary[event["direction"]]["started"] += 1
                running[key] = event
            else:
                summary[event["direction"]]["finished"] += 1
                running.pop(key, None)
            if index == bounds[rank][1]:
                summary["_busy"] = busy[rank]
        for rank, summary in summaries.items():
            first, final = bounds[rank]
            stretches = final - first
            at_last = summary.pop("_busy")
            summary["idle_share"] = round(1 - at_last / stretches, 6) if stretches else None
            summary["in_flight"] = [
                {key: event[key] for key in ("direction", "tensor", "line", "offset")}
                for event in open_now[rank].values()
            ]
        return dict(sorted(summaries.items()))


def _nothing() -> dict[str, Any]:
    return {"forward": {"started": 0, "finished": 0}, "backward": {"started": 0, "finished": 0}}
