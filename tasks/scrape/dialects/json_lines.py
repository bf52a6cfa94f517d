"""JSON lines as a dialect: `{"step": 12, "train/loss": 3.2, …}`, and the copies of trackers that maxview writes.

Levanter's `json_logger` prints its metrics in an inner object. A copy of a tracker begins with a line about the run
and ends with its status.
"""

import re
from typing import Any

from tasks.scrape.dialects.dialect import LogDialect, Match, compile_patterns
from tasks.scrape.dialects.json_rows import ObjectCollector, flatten, number_of, object_at, read_object, row_of, step_of
from tasks.scrape.dialects.metric_names import COLUMNS
from tasks.scrape.prefixes import TIME
from tasks.scrape.table.row_grammar import Row
from tasks.scrape.table.step_table import StepTable
from tasks.scrape.window import Window, text_of

SOURCE = "maxview_copy_of"  # the key that begins a tracker's copy; its value names the tracker
STATUS = "maxview_status"  # the key of its last line
_STEP = rb'"(?:step|global_step|_step|trainer/global_step|train/global_step|iteration)": ?-?\d'
HEAD = re.compile(
    rb"(?:(?<=[\s}])|(?m:^))(?<!\": )(?<!, )\{(?=\")(?!\"maxview_)"
    rb"(?!\"tracker\": \"json_logger\", \"event\": \"(?!log\"))"
    rb"(?=[^\n]{0,8000}%s)" % _STEP
)


def parse(line: bytes, position: int, like: Row | None, is_end: bool) -> Row | None:
    """Return the row at a position; None if its JSON is damaged or has no step or number. JSON is always complete."""
    found = object_at(line, position)
    if found is None or (step := step_of(found[0])) is None:
        return None
    values, end = found
    inner = values["metrics"] if "tracker" in values and isinstance(values.get("metrics"), dict) else values
    return row_of(inner, step[1], position, end)


class JsonLinesCollector(ObjectCollector):
    """Collects the run's name, settings and status that stand around the rows of a tracker's copy."""

    def __init__(self) -> None:
        super().__init__()
        self.config: dict[str, str] = {}
        self.ended: str | None = None

    def take(self, name: str, match: Match, window: Window, table: StepTable) -> None:
        """Collect a match of the pattern `name`."""
        super().take(name, match, window, table)
        if name not in ("source", "status"):
            return
        stop = window.data.find(b"\n", match.start())
        values = read_object(text_of(window.data[match.start() : stop if stop >= 0 else len(window.data)])) or {}
        if name == "source":
            self.note_fact("tracker", values.get(SOURCE), window.source(match.start()))
            self.config = {key: str(value) for key, value in flatten(values.get("config") or {})}
            self.started = values.get("started")
        else:
            self.ended = values.get("ended")
            if values.get(STATUS) == "finished":
                self.finished_at = self.finished_at or window.base + match.start()
            elif (code := number_of(values.get("exit_code"))) is not None:
                self.death.exit_code = int(code)

    def reading_fields(self, steps: Any, table: StepTable) -> dict[str, Any]:
        """Return the fields of the `RunReading`."""
        return super().reading_fields(steps, table) | {"config": self.config, "ended": self.ended}


DIALECT = LogDialect(
    name="json_lines",
    row=b'{"',
    head=HEAD,
    parse=parse,
    patterns=compile_patterns(
        {
            "source": rb'(?m:^)\{"%s": ' % SOURCE.encode(),
            "status": rb'(?m:^)\{"%s": ' % STATUS.encode(),
            "finished": rb'"tracker": "json_logger", "event": "finish"',
        }
    ),
    collector=JsonLinesCollector,
    time=TIME,
    known=frozenset({"step", "wall_s", *COLUMNS.values()}),
    keys=frozenset({"step", *COLUMNS}),
)
