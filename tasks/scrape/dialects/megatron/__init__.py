"""The dialect of Megatron-LM and its forks (Megatron-DeepSpeed, MegatronDPP, Primus): ` iteration 1/ 20 | … |`."""

from tasks.scrape.dialects.dialect import LogDialect
from tasks.scrape.dialects.megatron.event_collector import PATTERNS, MegatronEventCollector
from tasks.scrape.dialects.megatron.rows import BODY, HEAD, KEYS, KNOWN, parse
from tasks.scrape.prefixes import TIME, is_glued

DIALECT = LogDialect(
    name="megatron",
    row=b"elapsed time per iteration",
    head=HEAD, parse=parse, patterns=PATTERNS, collector=MegatronEventCollector, time=TIME, known=KNOWN, keys=KEYS,
    body=BODY, glued=is_glued,
    run_starts=(b"----- arguments -----",),
)  # fmt: skip
