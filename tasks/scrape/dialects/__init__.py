"""The dialects in order of recognition: NeMo's rows contain text like Megatron's, and an XPK frame may hold any run."""

from tasks.scrape.dialects import maxtext, megatron, nemo, torchtitan
from tasks.scrape.dialects.dialect import LogDialect
from tasks.scrape.window import may_match

DIALECTS: tuple[LogDialect, ...] = (nemo.DIALECT, megatron.DIALECT, torchtitan.DIALECT, maxtext.DIALECT)


def recognise(text: bytes) -> LogDialect | None:
    """Return the dialect of a text by its marks; None without any."""
    return next((one for one in DIALECTS if may_match(one.marks, text) and one.marks.search(text)), None)
