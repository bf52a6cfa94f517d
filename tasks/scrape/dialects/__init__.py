"""Lists the log dialects (the trainers' log formats) and recognises the dialect of a text."""

from tasks.scrape.dialects import maxtext, megatron, nemo, torchtitan
from tasks.scrape.dialects.dialect import LogDialect
from tasks.scrape.window import may_match

# In order of recognition: NeMo's rows contain text like Megatron's; MaxText's marks include a frame around any trainer.
DIALECTS: tuple[LogDialect, ...] = (nemo.DIALECT, megatron.DIALECT, torchtitan.DIALECT, maxtext.DIALECT)


def recognise(text: bytes) -> LogDialect | None:
    """Return the first dialect whose marks a text contains; None if it contains no marks."""
    return next((one for one in DIALECTS if may_match(one.marks, text) and one.marks.search(text)), None)
