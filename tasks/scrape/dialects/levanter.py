"""Levanter's progress lines: `Progress on:train 12.0it/400it rate:2.3it/s … postfix:loss=3.21`.

They are printed once a minute. From step 1000 on, the number of the step is rounded (`1.23kit`): such a line is no row.
Levanter's `json_logger` prints every step: JSON lines.
"""

import re

from tasks.scrape.dialects.dialect import EventCollector, LogDialect, compile_patterns
from tasks.scrape.prefixes import TIME
from tasks.scrape.table.row_grammar import Field, Row

_NUMBER = rb"[-+]?(?:\d{1,15}(?:\.\d{1,20})?(?:e[-+]\d{1,3})?|nan|inf)"
HEAD = re.compile(rb"Progress on:train (?=[\d.]{1,6}k?it/)(?=[^\n]{0,200}postfix:loss=)")
_LINE = re.compile(
    rb"Progress on:train (\d{1,3}(?:\.\d{1,2})?)it/(?:[\d.]{1,6}[kMG]?it|-) rate:(?:-|([\d.,]{1,12})(it/s|s/it)) "
    rb"remaining:\S{1,20} elapsed:\S{1,20} postfix:loss=(%s)(?=\s)" % _NUMBER
)


def parse(line: bytes, position: int, like: Row | None, is_end: bool) -> Row | None:
    """Return the row at a position; None if its step is rounded, or if the line may be cut."""
    found = _LINE.match(line, position)
    if found is None or float(found[1]) != int(float(found[1])):
        return None
    step = int(float(found[1])) - 1  # the bar counts finished steps
    first = Field("step", step, found.start(1), found.end(1), ("word", 0), "step")
    loss = Field("loss", float(found[4]), found.start(4), found.end(4), ("word", 0), "loss")
    return Row(step, (first, loss), position, found.end(), whole=True)


DIALECT = LogDialect(
    name="levanter",
    row=b"Progress on:train ",
    head=HEAD,
    parse=parse,
    patterns=compile_patterns({}),
    collector=EventCollector,
    time=TIME,
    known=frozenset({"step", "loss"}),
    keys=frozenset({"step", "loss"}),
)
