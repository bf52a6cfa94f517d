"""The grammar of MaxText's step line: `completed step: 3, seconds: 0.148, …, loss: 9.734`."""

import re

from tasks.scrape.prefixes import ABSL
from tasks.scrape.table.row_grammar import Field, Row, Value, shape_of

# begins a step line; MaxText prints profiler steps without their times
HEAD = re.compile(rb"completed[ \t]+(?:profiler[ \t]+\S+[ \t]+)?step\b")
# matches in every step line after its head, except in those of profiler steps
BODY = re.compile(rb"(?:TFLOP|Tokens)/s/device:\s{1,9}\d|total_weights:\s{1,9}\d|perplexity:\s{1,9}\d")
_STEP = re.compile(rb"completed (?:profiler \S+ )?step: (0|[1-9]\d{0,17})(?!\d)")
NUMBER = rb"[-+]?(?:(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?|nan|inf(?:inity)?)"
_NUMBER = re.compile(NUMBER, re.IGNORECASE)
# one field: `, key: value`; the value ends at a comma, at a blank, or where another record begins without a blank
_FIELD = re.compile(
    rb",[ \t]([A-Za-z](?:[^\s:,]| (?=\S)){0,59}):[ \t]"
    rb"(%s|[^\s,]+?)(?=[,\s\x1b]|\Z|%s|completed (?:step|profiler)|XPK End:|EXIT_CODE=)" % (NUMBER, ABSL),
    re.IGNORECASE,
)
TAIL = rb"(?=[ \t\r\n]|\Z)"
_COLUMNS = {"TFLOP/s/device": "tflops_per_device", "Tokens/s/device": "tokens_per_s_per_device"}
# keys with three decimals in every version of MaxText; related trainers use another number of decimals
_THREE = frozenset({"seconds", "TFLOP/s/device", "Tokens/s/device", "loss", "lm_loss", "perplexity"})
_KNOWN = _THREE | {"total_weights", "moe_lb_loss", "mtp_loss", "main_model_loss", "dpo_loss", "reward_accuracy",
                   "indexer_loss", "live slice count"}  # fmt: skip
_OURS = frozenset({"time", "line", "offset"})
AGREEING = 3  # if at least this many numbers of a line agree, their number of decimals may differ from 3


def column_name(key: str) -> str:
    """Return the column of a key: the records' name, else the key; `KEY (log)` if the records use the key otherwise."""
    return _COLUMNS.get(key, f"{key} (log)" if key in _OURS else key)


KEYS = _KNOWN | {"step"}
KNOWN = frozenset(map(column_name, _KNOWN))
UNFINISHED = frozenset(map(column_name, _THREE))  # a row's last number may be cut if it has fewer than 3 decimals


def parse(line: bytes, position: int, like: Row | None, is_end: bool) -> Row | None:
    """Return the step line at a position (see `RowGrammar.parse`); None if damaged, or if its end may be cut."""
    row = _split(line, position)
    if row is None or (like is not None and like.regular and not row.regular):
        return None
    last, following = row.fields[-1], line[row.end : row.end + 1]
    if len(row.fields) == 1:  # only profiler steps have no values
        return row if line.startswith(b"completed profiler", position) and following.isspace() else None
    if last.key == "total_weights":  # the row is cut: the loss always follows
        return None
    # a cut number has fewer decimals than the number of the same key in the row `like`
    shapes = {one.key: one.shape for one in (like.fields if like is not None else ()) if one.shape[0] == "fixed"}
    sure = last.shape in (("open", 0), shapes.get(last.key, ("fixed", 3)))
    if not following:  # the row is cut, or the log has no final line break
        return row if is_end and like is not None and like.columns == row.columns and sure else None
    return row if sure or not (row.ends_early(like) or following not in b" \t\r\n\x1b") else None


def _split(line: bytes, position: int) -> Row | None:
    """Return the step line at a position as a row of fields; None if a field is damaged."""
    head = _STEP.match(line, position)
    if head is None:
        return None
    fields, end = [Field("step", int(head[1]), head.start(1), head.end(1), ("whole", 0), "step")], head.end()
    keys = {"step"}  # a repeated key shows that two rows were merged
    while line[end : end + 1] == b",":
        found = _FIELD.match(line, end)
        one = _read(found) if found else None
        if found is None or one is None or one.key in keys:
            return None
        keys.add(one.key)
        fields.append(one)
        end = found.end()
    last = fields[-1]
    # regular: three decimals, or another number of decimals throughout the line
    shapes = [one.shape for one in fields if one.key in _THREE and one.shape[0] != "open"]
    regular = set(shapes) <= {("fixed", 3)} or (len(shapes) >= AGREEING and len(set(shapes)) == 1 and shapes[0][1] > 0)
    profiler = line.startswith(b"completed profiler", position)
    return Row(
        step=int(head[1]), fields=tuple(fields), begin=position, end=end,
        certain=last.key in _THREE and last.shape in (("fixed", 3), ("open", 0)), regular=regular,
        excused=profiler or line[position - 3 : position] == b"], ", tail=TAIL,
    )  # fmt: skip


def _read(found: re.Match[bytes]) -> Field | None:
    """Return a match of `_FIELD` as a field; None if damaged."""
    key, text, end = found[1].decode("utf-8", "replace"), found[2], found.end(2)
    # damaged text, or the line break to the next row is lost
    if not key.isprintable() or "\ufffd" in key or HEAD.search(found[1]):
        return None
    shape = shape_of(text) if _NUMBER.fullmatch(text) else ("word", 0)
    value: Value
    if key == "total_weights":  # always a whole number
        whole = text.removesuffix(b".0")
        if not re.fullmatch(rb"0|[1-9]\d*", whole) or int(whole) >= 1 << 63:
            return None
        value, shape, end = int(whole), ("whole", 0), found.start(2) + len(whole)
    elif shape[0] == "word":
        if key in _KNOWN:
            return None
        value = text.decode("utf-8", "replace")
    else:
        value = float(text)
        shape = shape if key in _THREE or shape[0] == "open" else ("free", 0)
    return Field(column_name(key), value, found.start(2), end, shape, key)
