"""Hugging Face's Trainer, also under TRL and Accelerate: `{'loss': 2.31, 'grad_norm': 1.2, …, 'epoch': 0.01}`.

Its rows print no step: rows with a loss are numbered from 1 in their order, as the Trainer numbers its first log. Since
version 5 the numbers are texts: `{'loss': '2.31', …}`. Dictionaries with a step, which loops of other people print, are
read too.
"""

import re
from typing import Any

from tasks.scrape.dialects.dialect import LogDialect, compile_patterns
from tasks.scrape.dialects.json_rows import ObjectCollector, read_object, row_of, step_of
from tasks.scrape.dialects.metric_names import COLUMNS
from tasks.scrape.prefixes import TIME
from tasks.scrape.table.row_grammar import Row
from tasks.scrape.window import text_of

UNNUMBERED = -1  # the step of a row without one
_ROW = re.compile(rb"\{'[^{}\n]{1,8000}\}")
_WORDS = re.compile(r"(?<=: )(-?)(nan|inf|None|True|False)(?=[,}])")
_JSON = {"nan": "NaN", "inf": "Infinity", "None": "null", "True": "true", "False": "false"}
HEAD = re.compile(
    rb"\{'(?=(?:eval_)?[\w/]{0,40}loss'|(?:[^{}\n]{0,8000}')?(?:epoch|step|global_step)': )"
    rb"(?!train_runtime'|[^{}\n]{0,8000}'train_runtime')"
)


def parse(line: bytes, position: int, like: Row | None, is_end: bool) -> Row | None:
    """Return the row of the dictionary at a position; None if it is damaged. Its last brace shows that it is whole."""
    found = _ROW.match(line, position)
    if found is None:
        return None
    text = _WORDS.sub(lambda word: word[1] + _JSON[word[2]], text_of(found[0])).replace("'", '"')
    values = read_object(text)
    if values is None:
        return None
    step = step_of(values)
    return row_of(values, UNNUMBERED if step is None else step[1], position, found.end())


class HuggingFaceCollector(ObjectCollector):
    """Numbers the rows."""

    def number_rows(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the rows with steps: the number of losses so far."""
        step, numbered = 0, []
        for row in rows:
            step += row.get("loss") is not None
            numbered.append(row | {"step": step} if row["step"] == UNNUMBERED else row)
        return numbered


DIALECT = LogDialect(
    name="hugging_face",
    row=b"loss': ",
    head=HEAD,
    parse=parse,
    patterns=compile_patterns({"finished": rb"\{'(?:[^{}\n]{0,8000}')?train_runtime': "}),
    collector=HuggingFaceCollector,
    time=TIME,
    known=frozenset({"step", *COLUMNS.values()}),
    keys=frozenset({"step", *COLUMNS}),
)
