"""The grammar of Megatron's rows (the lines of iterations): ` iteration 1/ 20 | key: value | … |`."""

import math
import re

from tasks.scrape.table.row_grammar import Field, Row, Value, shape_of

# `iteration        1/      20 |`; RL forks print `iteration 1/infinity |`, Argonne's `iteration=       1/  317892 |`
# a pattern that begins with literal text is searched faster than one that begins with a look-behind
HEAD = re.compile(rb"iteration(?<![A-Za-z0-9_-]iteration)[ =] {0,40}\d+ {0,40}/ {0,40}(?:\d+|infinity) {0,40}\|")
_BEGUN = re.compile(rb"iteration[ =] {0,40}\d+ {0,40}/")
_HEAD = re.compile(rb"iteration[ =]( {0,40})(0|[1-9]\d{0,14}) {0,40}/ {0,40}(\d{1,15}|infinity) {0,40}\|")
# `key: value |`; the first versions print `key value |`, Argonne's `key=value |`; a row's head is not a field
_OPEN_FIELD = (
    rb" {0,40}(?!iteration[ =] {0,40}\d+ {0,40}/)([A-Za-z\[][^|\n:=]{0,79}?)(?:: |=| )"
    rb"( {0,40})([-+]?[\d.,a-zA-Z][^\s|=]{0,79}(?: \(avg [\d.]{1,20}\)| m?s| days?, [\d:]{7,8})?)"
)
_FIELD = re.compile(_OPEN_FIELD + rb" {1,40}\|")
# Primus prints bars only between fields: its last field is complete if it ends with %, or is a padded count in a line
# that ends with a line break
_LAST_FIELD = re.compile(_OPEN_FIELD + rb"(?<=%)(?=[ \t]*(?:\r?\n|\Z))")
_LAST_COUNT = re.compile(rb" {0,40}(number of nan iterations): ( {0,2})(\d{1,9})(?<=: [ \d]{2}\d)(?=[ \t]*\r?\n)")
# matches in every row after the head; a match elsewhere shows a row that lost its head
_ONE = rb"\s{0,40}[\dnai][^\s|]{0,40}\s{0,40}\|\s{0,40}"
BODY = re.compile(
    rb"elapsed[\s_]time[\s_]per[\s_]iteration(?:\s\(m?s\):?\s|_ms=)\s{0,40}\d|"
    rb"iteration(?<![A-Za-z0-9_-]iteration)[ =] {0,40}\d+ {0,40}/[ \d]{0,40}(?=\r?(?:\n|\Z))|"
    rb"number of (?:nan|skipped) iterations:\s{0,40}\d|learning rate:%sglobal batch size:|loss scale:%s(?:grad|num)"
    % (_ONE, _ONE)
)
# exponents as C and Python print them: two digits, or three if needed; `E-00` and an overflow show damage
_EXPONENT = r"[eE](?:\+\d\d|-(?!00)\d\d|[-+](?:[12]\d\d|30[0-7]))"
_NUMBER = re.compile(
    rf"[-+]?(?:[1-9](?:\.\d+)?{_EXPONENT}|0(?:\.0+)?[eE]\+00|(?:0|[1-9]\d*)(?:\.\d+)?|nan|inf(?:inity)?)", re.IGNORECASE
)
# allowed after a complete row: the end of the line, or a record glued to it
_AFTER = re.compile(
    rb"[ \t]*(?:\r?\n|\[|rank \d|Number of |Total number|Theoretical |\(min, max\)|time \(ms\)|-{5,}|saving check|"
    rb"iteration +\d|validation |WARNING|INFO|Step Time |\w+: iteration)"
)
_NAMED = {
    "lm loss": "loss", "lm-loss": "loss", "lm_loss": "loss", "loss": "loss",
    "throughput per GPU (TFLOP/s/GPU)": "tflops_per_device", "TFLOPs": "tflops_per_device",
    "compute per GPU (TFLOP/s/GPU)": "tflops_per_device",
    "tokens per GPU (tokens/s/GPU)": "tokens_per_s_per_device",
    "tokens/s/GPU": "tokens_per_s_per_device", "tokens/sec/gpu": "tokens_per_s_per_device",
    "Tokens per second per GPU (Tok/s/GPU)": "tokens_per_s_per_device",
    "tokens per gpu per second (tgs)": "tokens_per_s_per_device",
    "tokens_per_gpu_per_second_tgs": "tokens_per_s_per_device", "[LM]-TFLOPs": "tflops_per_device",
    "[LM]TFLOPs": "tflops_per_device",
    "tokens/s/GPU inst/harmonic mean": "tokens_per_s_per_device", "tokens/sec/GPU": "tokens_per_s_per_device",
}  # fmt: skip
_ELAPSED = re.compile(r"(?:elapsed[ _]time[ _]per[ _]iteration|iteration time)(?: \((m?s)\)|_(ms))?")
_PARTS = re.compile(r"/| \(avg |\)$")  # separates a number from its average, or ends the average
# fields of forks whose values contain words
_WORDS = {
    "eta": re.compile(r"(?:\d+ days?, )?\d+:\d\d:\d\d"),
    "consumed tokens": re.compile(r"\d+(?:\.\d+)?[KMBT]"),
}
_RANK = re.compile(r"rank-\d+ ")  # the rank before the key of a memory field
_COUNT = re.compile(r"number[ _]of[ _]")  # beginning of keys whose values are whole numbers
# keys whose values are printed with varying decimals
_FREE = frozenset({"num zeros", "learning_rate"})
_KNOWN = frozenset(_NAMED) | {
    "elapsed time per iteration (ms)", "elapsed time per iteration (s)", "consumed samples", "consumed tokens",
    "skipped samples", "learning rate", "decoupled learning rate", "global batch size", "loss scale", "grad norm",
    "num zeros", "params norm", "number of skipped iterations", "number of nan iterations", "samples per second",
    "load_balancing_loss", "seq_load_balancing_loss", "global_load_balancing_loss", "z_loss", "mtp_1 loss", "sop loss",
    "energy per GPU (J/iter/GPU)", "power per GPU (W/GPU)", "hip mem usage/free/total/usage_ratio", "mem usages",
    "rocm mem usage/free/total/usage_ratio", "rocm max mem usage/usage_ratio", "max mem usage/usage_ratio",
    "eta", "iteration time", "iteration time (ms)", "iteration time (s)", "samples/sec",
    "actual seqlen", "curriculum seqlen", "seqlen", "[DS]-TFLOPs", "[DS]TFLOPs",
}  # fmt: skip
_KNOWN |= {key.replace(" ", "_") for key in _KNOWN}  # Argonne's fork prints underscores
_AVERAGE = "{} (average)"
_FINAL = ("number of nan iterations", "number_of_nan_iterations")  # keys of the last field
# keys of counts: if a count is not 0, the row may lack other fields
_EXCUSING = ("number of skipped iterations", "number_of_skipped_iterations", *_FINAL)
TAIL = rb"(?=[ \t]*\r?$)"


def column_of(key: str) -> str:
    """Return the column of a printed key."""
    return "seconds" if _ELAPSED.fullmatch(key) else _NAMED.get(key, key)


KEYS = _KNOWN | {"iteration"}
KNOWN = frozenset(map(column_of, _KNOWN)) | {_AVERAGE.format(column_of(key)) for key in _KNOWN}


def parse(line: bytes, position: int, like: Row | None, is_end: bool) -> Row | None:
    """Return the row at a position (see `RowGrammar.parse`); None if damaged or cut. Only Primus omits the last bar."""
    head = _HEAD.match(line, position)
    if head is None:
        return None
    end, total = head.end(), int(head[3]) if head[3].isdigit() else None
    width = len(head[1]) + len(head[2])
    first = Field("step", int(head[2]), head.start(2), head.end(2), shape_of(head[2], width), "iteration")
    fields, end = read_fields(line, end)
    # damaged: every version prints the seconds, and only another row has a second head
    if all(one.column != "seconds" for one in fields) or _BEGUN.search(line, head.end(), end):
        return None
    fields.insert(0, first)
    values = {one.key: one.value for one in fields}
    norm = values.get("grad norm", values.get("grad_norm"))
    excused = any(values.get(key) for key in _EXCUSING) or (isinstance(norm, float) and not math.isfinite(norm))
    # all versions and forks print exponents with 3 or 6 decimals
    regular = all(one.shape[1] in (3, 6) for one in fields if one.shape[0] == "exponent")
    row = Row(int(head[2]), tuple(fields), position, end, regular=regular, excused=excused, total=total, tail=TAIL)
    if line[end : end + 200].strip(b" \t\r"):
        return row if _AFTER.match(line, end) else None
    last = fields[-1].key  # the row ends the text, so it may be cut after any field
    return row if is_end and (last == like.fields[-1].key if like is not None else last in _FINAL) else None


def read_fields(data: bytes, position: int) -> tuple[list[Field], int]:
    """Return the fields from a position on, and the position after them; no fields if one is damaged."""
    fields: list[Field] = []
    while found := _FIELD.match(data, position):
        read = _read(found)
        # a repeated column shows that two rows were merged
        if read is None or not {"step", *(one.column for one in fields)}.isdisjoint(one.column for one in read):
            return [], position
        fields += read
        position = found.end()
    last = _LAST_FIELD.match(data, position) or _LAST_COUNT.match(data, position)
    if fields and last and (read := _read(last)):
        fields += read
        position = last.end()
    return fields, position


def _read(found: re.Match[bytes]) -> list[Field] | None:
    """Return a match of `_FIELD` as one field, or as two (`instantaneous/average`); None if a number is damaged."""
    key, text, at = found[1].decode("utf-8", "replace").strip(), found[3].decode("utf-8", "replace"), found.start(3)
    key = _RANK.sub("", key.lower() if key == "ETA" else key)
    elapsed, name = _ELAPSED.fullmatch(key), column_of(key)
    unit = elapsed and (elapsed[1] or elapsed[2])
    if elapsed and unit is None:
        text, _, unit = text.partition(" ")
    parts = [part for part in _PARTS.split(text) if part]
    if not 1 <= len(parts) <= 2 or not all(_NUMBER.fullmatch(part) for part in parts):
        # some values contain words: `hip mem usage/free/…: 154GB/38GB/…`
        is_word = key in _WORDS and _WORDS[key].fullmatch(text)
        if name != key or (key in _KNOWN and not (is_word or 1 < len(parts) == 1 + key.count("/"))):
            return None
        return [Field(name, text, at, found.end(3), ("word", 0), key)]
    if (_COUNT.match(key) and not text.isdigit()) or (elapsed and unit not in ("s", "ms")):
        return None
    fields = []
    for part, column in zip(parts, (name, _AVERAGE.format(name)), strict=False):
        at = found.start(3) + text.index(part, at - found.start(3))
        alone = len(parts) == 1
        shape = shape_of(part.encode(), len(part) + len(found[2]) if alone else 0)
        shape = ("free", 0) if key in _FREE and shape[0] != "whole" else shape
        milli = unit == "ms"
        value: Value = int(part) if shape[0] == "whole" and not elapsed and name == key else float(part)
        if milli:  # avoids the rounding error of a division
            value = float(part + "e-3") if part.replace(".", "").isdigit() else float(part) / 1000
        fields.append(Field(column, value, at, at + len(part), shape, key, milli))
        at += len(part)
    return fields
