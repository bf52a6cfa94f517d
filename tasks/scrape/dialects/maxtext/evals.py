"""Reads evaluation lines, in their old and new wording, into one row per evaluation."""

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tasks.scrape.prefixes import iso_time, prefix_of_text
from tasks.scrape.window import Window

_PAIR = re.compile(r"[:,] ([^\s:=,][^:=,\n]*)(?:: |=)([\w.]+\([^()\n]*\)|[^\s,]+)")
_WRAPPED = re.compile(r"[\w.]+\(([^\s,()]+)[^()]*\)")  # Array(6.7, dtype=float32)
# MaxText of 2024 prints its variables' names
_NAMES = {"eval_loss": "loss", "eval_step_count": "eval_steps"}
_PLAIN = re.compile(r"[-+]?(?:\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|nan|inf)%?", re.IGNORECASE)


@dataclass
class EvalLog:
    """The evaluations of a log. An evaluation's own steps are counted into its row, and their seconds added up."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    begun: list[tuple[int, int]] = field(default_factory=list)  # (step, offset) of where an evaluation starts
    _steps: int = 0
    _seconds: float = 0.0

    def take(self, name: str, match: re.Match[bytes], window: Window) -> None:
        """Note one anchor; those that are no evaluation's are ignored."""
        if name == "eval_start":
            self.begun.append((int(match[1]), window.base + match.start()))
        if name not in ("eval", "eval_step"):
            return
        # the last number may have been cut by the end of the log
        cut = window.last and match.end() == len(window.data)
        values = {} if cut else _values(match[2].decode("utf-8", "replace"))
        if name == "eval_step":
            self._steps += 1
            self._seconds += float(values.get("seconds") or 0.0)
            return
        source = window.source(match.start())
        prefix = prefix_of_text(window.data, match.start())
        self.rows.append(
            {
                "step": int(match[1]),
                **values,
                "eval_steps": self._steps or _count(values.get("eval_steps")),
                "eval_seconds": round(self._seconds, 6) if self._steps else None,
                "time": prefix.time if prefix else None,
                "line": source.line,
                "offset": source.offset,
            }
        )
        self._steps, self._seconds = 0, 0.0

    def table(self, first_day: datetime | None) -> tuple[dict[str, Any], ...]:
        """The rows, with times as ISO 8601."""
        return tuple({**row, "time": iso_time(row["time"], first_day)} for row in self.rows)

    @property
    def offsets(self) -> list[int]:
        """Where the evaluations stand."""
        return [row["offset"] for row in self.rows]


def _values(text: str) -> dict[str, float | str]:
    found = {}
    for key, value in _PAIR.findall(text):
        wrapped = _WRAPPED.fullmatch(value)
        plain = wrapped[1] if wrapped else value
        found[_NAMES.get(key, key)] = float(plain.rstrip("%")) if _PLAIN.fullmatch(plain) else value
    return found


def _count(value: float | str | None) -> int | None:
    return int(value) if isinstance(value, float) and value.is_integer() else None
