"""Lists the log dialects (the trainers' log formats) and recognises the dialect of a text."""

from tasks.scrape.dialects import maxtext, megatron, nemo, torchtitan
from tasks.scrape.dialects.dialect import LogDialect
from tasks.scrape.window import may_match

# In order of recognition: NeMo's rows contain text like Megatron's. MaxText is last: its own text includes
# `EXIT_CODE=`, which wrapper scripts print after any trainer.
DIALECTS: tuple[LogDialect, ...] = (nemo.DIALECT, megatron.DIALECT, torchtitan.DIALECT, maxtext.DIALECT)


def recognise(text: bytes) -> LogDialect | None:
    """Return the first dialect whose `own_text` matches in a text; None without such a dialect."""
    return next((one for one in DIALECTS if may_match(one.own_text, text) and one.own_text.search(text)), None)
