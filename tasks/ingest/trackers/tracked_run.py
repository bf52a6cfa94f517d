"""One run of an experiment tracker, and its copy as JSON lines, which is read and archived like a log."""

import json
import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from tasks.scrape.dialects.json_lines import SOURCE, STATUS
from tasks.scrape.dialects.metric_names import column_of, evaluation_key

MOST_KEYS = 300  # most other metrics of a copy: a log has at most 400 columns


@dataclass
class TrackedRun:
    """The numbers of one run, by step."""

    name: str
    tracker: str  # e.g. "TensorBoard"
    files: int  # number of files read
    place: Path  # file or folder of the run
    rows: dict[int, dict[str, float]] = field(default_factory=dict)  # step → tag → value
    walls: dict[int, float] = field(default_factory=dict)  # step → seconds since 1970 when its metrics were written
    config: dict[str, str] = field(default_factory=dict)
    started: str | None = None  # ISO 8601
    ended: str | None = None  # ISO 8601
    finished: bool = False  # the tracker shows that the run ended well
    exit_code: int | None = None
    key: str | None = None  # the tracker's own id of the run

    def add(self, step: int, tag: str, value: float, wall_s: float | None = None) -> None:
        """Add a number; a later number of a step and tag replaces an earlier one."""
        self.rows.setdefault(step, {})[tag] = value
        if wall_s is not None and evaluation_key(tag) is None:
            self.walls[step] = wall_s

    @property
    def tags(self) -> list[str]:
        """All tags, in the order of their first step."""
        return list(dict.fromkeys(tag for step in sorted(self.rows) for tag in self.rows[step]))

    @property
    def has_wall_times(self) -> bool:
        """Whether the steps with a training loss were written one after the other, so that times show their seconds."""
        trained = sorted(step for step, row in self.rows.items() if any(column_of(tag) == "loss" for tag in row))
        walls = [self.walls.get(step, math.nan) for step in trained]
        return len(walls) > 1 and all(after > before for before, after in pairwise(walls))

    def write(self, path: Path) -> list[str]:
        """Write the run as JSON lines; return the tags for which a log has no room."""
        known = [tag for tag in self.tags if column_of(tag) or evaluation_key(tag) == "loss"]
        other = [tag for tag in self.tags if tag not in known]
        kept = {*known, *other[:MOST_KEYS]}
        first: dict[str, Any] = {SOURCE: self.tracker, "config": self.config, "started": self.started}
        lines = [first]
        for step in sorted(self.rows):
            wall = {"wall_s": self.walls[step]} if step in self.walls else {}
            values = {tag: value for tag, value in self.rows[step].items() if tag in kept}
            lines.append({"step": step, **values, **wall})
        end: dict[str, Any] = {"exit_code": self.exit_code} if self.exit_code else {}
        lines.append({STATUS: "finished" if self.finished else "unknown", "ended": self.ended, **end})
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        return other[MOST_KEYS:]


def iso_of(seconds: float | None) -> str | None:
    """Return seconds since 1970 as ISO 8601 in UTC; None for None."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
