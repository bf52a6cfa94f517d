"""AXLearn's dialect: `SpmdTrainer process   0 step        3] loss=10.83 aux={'a': 1.0, …}`.

The trainer prints the steps 0 to 5, then every 100th, and there the mean seconds of the steps before.
"""

import re
from typing import Any

import polars as pl

from tasks.scrape.dialects.dialect import EventCollector, LogDialect, Match, compile_patterns
from tasks.scrape.prefixes import TIME
from tasks.scrape.table.row_grammar import Field, Row
from tasks.scrape.table.step_table import StepTable
from tasks.scrape.window import Window

_STEP = rb"process +(\d{1,9}) step +(\d{1,15})\] "
HEAD = re.compile(_STEP + rb"(?=loss=)")
_NUMBER = rb"[-+]?(?:\d{1,15}(?:\.\d{1,20})?(?:e[-+]\d{1,3})?|nan|inf)"
_LOSS = re.compile(rb"loss=(%s) aux=" % _NUMBER)
_VALUE = re.compile(rb"'([A-Za-z][\w/.-]{0,79})': (?:[A-Za-z]+\()?(%s)(?=[,})])" % _NUMBER)
_NAMES = {"learning_rate": "learning_rate", "gradient_norm": "grad_norm", "grad_norm": "grad_norm"}


def parse(line: bytes, position: int, like: Row | None, is_end: bool) -> Row | None:
    """Return the row at a position; None if it lost its loss, or the end of its auxiliary values."""
    head = HEAD.match(line, position)
    loss = None if head is None else _LOSS.match(line, head.end())
    if head is None or loss is None or (is_end and not line.endswith(b"\n")):
        return None
    rest = line[loss.end() :].rstrip()
    if not rest or (rest[:1] in b"{(" and rest.count(b"{") != rest.count(b"}")):
        return None
    step, end = int(head[2]), loss.end() + len(rest)
    fields = {"loss": Field("loss", float(loss[1]), loss.start(1), loss.end(1), ("word", 0), "loss")}
    for found in _VALUE.finditer(line, loss.end()):
        name = found[1].decode()
        column = _NAMES.get(name.rpartition("/")[2], name)
        fields.setdefault(column, Field(column, float(found[2]), found.start(2), found.end(2), ("word", 0), name))
    first = Field("step", step, head.start(2), head.end(2), ("word", 0), "step")
    return Row(step, (first, *fields.values()), position, end, whole=True)


class AxlearnCollector(EventCollector):
    """Collects the mean seconds of steps."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: dict[int, float] = {}

    def take(self, name: str, match: Match, window: Window, table: StepTable) -> None:
        """Collect a match of the pattern `name`."""
        super().take(name, match, window, table)
        if name == "seconds":
            self.seconds[int(match[2])] = float(match[3])

    def reading_fields(self, steps: pl.DataFrame, table: StepTable) -> dict[str, Any]:
        """Return the fields of the `RunReading`; the seconds stand at the steps at which they were printed."""
        seconds = pl.Series([self.seconds.get(step) for step in steps["step"]], dtype=pl.Float64)
        return super().reading_fields(steps.with_columns(seconds=seconds), table) | {"gaps": ()}


DIALECT = LogDialect(
    name="axlearn",
    row=b"] loss=",
    head=HEAD,
    parse=parse,
    patterns=compile_patterns({
        "seconds": _STEP + rb"Average step time: (%s) seconds" % _NUMBER,
        "finished": _STEP + rb"(?:Reached max_step=\d+\. Stopping|Reached end of inputs\. Stopping)",
    }),
    collector=AxlearnCollector,
    time=TIME,
    known=frozenset({"step", "loss", *_NAMES.values()}),
    keys=frozenset({"step", "loss", *_NAMES}),
)  # fmt: skip
