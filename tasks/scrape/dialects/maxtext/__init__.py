"""The dialect of MaxText and of maxview's trainer: `completed step: 12, seconds: 0.409, TFLOP/s/device: 33.186, …`."""

import re

from tasks.scrape.dialects.dialect import LogDialect
from tasks.scrape.dialects.maxtext.event_collector import MaxTextEventCollector
from tasks.scrape.dialects.maxtext.patterns import PATTERNS
from tasks.scrape.dialects.maxtext.rows import BODY, HEAD, KEYS, KNOWN, UNFINISHED, parse
from tasks.scrape.prefixes import ABSL

DIALECT = LogDialect(
    name="maxtext",
    row=b"completed step: ",
    head=HEAD, parse=parse, patterns=PATTERNS, collector=MaxTextEventCollector,
    # `[Rampup Batch Size Phase], ` may be between the logger's prefix and the step
    time=re.compile(rb"[IWEF](\d{4} \d\d:\d\d:\d\d\.\d{6}) +\d+ [\w.+-]+:\d+\] ?(?:\[[^\]\n]*\], )?\Z"),
    record=re.compile(ABSL), known=KNOWN, keys=KEYS, unfinished=UNFINISHED, body=BODY,
    run_starts=(b"XPK Start: ", b"System Information: Jax Version: "),
)  # fmt: skip
