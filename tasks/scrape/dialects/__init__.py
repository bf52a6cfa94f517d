"""The dialects, in the order in which they are looked for: NeMo's rows hold what looks like Megatron's, and any run may
stand in an XPK frame."""

from tasks.scrape.dialects import maxtext, megatron, nemo, torchtitan
from tasks.scrape.dialects.dialect import LogDialect
from tasks.scrape.window import may_match

DIALECTS: tuple[LogDialect, ...] = (nemo.DIALECT, megatron.DIALECT, torchtitan.DIALECT, maxtext.DIALECT)


def recognise(text: bytes) -> LogDialect | None:
    """The dialect of a piece of text; None if it shows no marks of any."""
    for dialect in DIALECTS:
        if may_match(dialect.marks, text) and dialect.marks.search(text):
            return dialect
    return None
