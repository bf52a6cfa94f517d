"""NeMo's dialect: `Training epoch 0, iteration 12/99 | lr: 3e-05 | global_step: 12 | reduced_train_loss: 1.2 | …`.

NeMo 1 shows a bar instead: `Epoch 0: 1%| | 795/77225 [9:07<…, v_num=, reduced_train_loss=3.090, global_step=794.0, …]`.
"""

import re

from tasks.scrape.dialects.dialect import EventCollector, LogDialect, compile_patterns
from tasks.scrape.prefixes import TIME, is_glued
from tasks.scrape.table.row_grammar import GENERAL, Field, Row, Value, shape_of

# nemo/lightning/pytorch/callbacks/progress_printer.py prints four significant digits without trailing zeros, so the
# digits do not show whether the last number of a row is complete
_HEAD = re.compile(rb"Training epoch \d{1,9}, iteration (0|[1-9]\d{0,14})/(\d{1,15})(?= \|)")
_BAR = re.compile(
    rb"Epoch \d{1,9}: [^\n\[\]]{0,200} \d{1,15}/\d{1,15} \[[^\n\[\],]{1,60}, [^\n\[\],]{1,30}"
    rb"((?:, [^\n\[\],]{1,80})+)\]"
)
_BAR_FIELD = re.compile(rb", ([A-Za-z][^=,\n]{0,79})=([^\s,]{1,40})")
_FIELD = re.compile(rb" \| ([A-Za-z][^|:\n]{0,79}): ([^\s|]{1,40})(?= \||\s|\Z)")
_NUMBER = re.compile(rb"[-+]?(?:(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d{1,3})?|nan|inf)")
_NAMED = {"global_step": "step", "reduced_train_loss": "loss", "train_step_timing in s": "seconds"}
_KNOWN = frozenset({"lr", "consumed_samples", "global_batch_size", "val_loss", "grad_norm", *_NAMED})


def parse(line: bytes, position: int, like: Row | None, is_end: bool) -> Row | None:
    """Return the row at a position; None if damaged or cut. The step is `global_step`, else the epoch's iteration."""
    if line.startswith(b"Epoch ", position):
        return _parse_bar(line, position)
    head = _HEAD.match(line, position)
    if head is None:
        return None
    fields: dict[str, Field] = {}
    end = head.end()
    while found := _FIELD.match(line, end):
        key, text, end = found[1].decode("utf-8", "replace"), found[2], found.end()
        column, kind = _NAMED.get(key, key), shape_of(text)[0]
        if not _NUMBER.fullmatch(text) or column in fields:
            return None
        if kind != "whole" or _NAMED.get(key) in ("loss", "seconds"):
            kind = "general" if GENERAL.fullmatch(text) else "open" if kind == "open" else "free"
        value: Value = int(text) if kind == "whole" else float(text)
        fields[column] = Field(column, value, found.start(2), found.end(2), (kind, 0), key)
    step = fields.get("step")
    first = Field("iteration" if step else "step", int(head[1]), head.start(1), head.end(1), ("whole", 0), "iteration")
    number = int(step.value) if step else int(head[1])
    regular = all(one.shape[0] != "free" for one in fields.values())
    row = Row(number, (first, *fields.values()), position, end, certain=False, regular=regular)
    is_whole = "loss" in fields and not line[end:].strip() and not row.ends_early(like)
    return row if is_whole and not (is_end and end == len(line)) else None


def _parse_bar(line: bytes, position: int) -> Row | None:
    """Return the row of a bar; its bracket shows that it is whole. None if its step is rounded, as `1.2e+4` may be."""
    bar = _BAR.match(line, position)
    if bar is None:
        return None
    fields = {}
    for found in _BAR_FIELD.finditer(line, bar.start(1), bar.end(1)):
        column = _NAMED.get(key := found[1].decode("utf-8", "replace"), key)
        # `loss` of the bar is a running mean
        if _NUMBER.fullmatch(found[2]) and key not in ("loss", "v_num", "consumed_samples"):
            fields[column] = Field(column, float(found[2]), found.start(2), found.end(2), ("word", 0), key)
    step = fields.pop("step", None)
    if step is None or "loss" not in fields or b"e" in line[step.begin : step.end]:
        return None
    first = Field("step", int(step.value), step.begin, step.end, ("word", 0), step.key)
    return Row(int(step.value), (first, *fields.values()), position, bar.end(), whole=True)


DIALECT = LogDialect(
    name="nemo",
    row=b"reduced_train_loss",
    head=re.compile(rb"Training epoch \d+, iteration \d+|Epoch \d{1,9}: (?=[^\n]{0,1000}, reduced_train_loss=)"),
    parse=parse,
    patterns=compile_patterns({"finished": rb"`Trainer\.fit` stopped: [^\n]{1,80}reached"}),
    collector=EventCollector,
    time=TIME,
    known=frozenset(_NAMED.get(key, key) for key in _KNOWN) | {"iteration"},
    keys=_KNOWN | {"iteration"},
    late=frozenset({"val_loss", "consumed_samples"}),
    body=re.compile(rb"\| (?:reduced_train_loss|train_step_timing in s|consumed_samples):"),
    glued=is_glued,
)
