"""The grammar of torchtitan's rows: `step: 12  loss:  3.24405  grad_norm:  0.8319  memory: …` to their values."""

import math
import re

from tasks.scrape.table.rows import Field, Row, shape_of

# torchtitan/components/metrics.py, MetricsProcessor.log; early versions have no tflops, grad_norm came in 2025
HEAD = re.compile(rb"(?<!validate )(?<!\w)step: {1,9}\d{1,15}(?:/\d+ = [\d.]+%)?(?=  [a-z])")
VALIDATE = re.compile(rb"validate step: +(\d{1,15})(?=  [a-z])")
# what stands in every row: without a step before it, it is a row that lost one
BODY = re.compile(rb"\bloss:\s{1,9}-?\d[\d.]{0,20}\s{1,9}(?:grad_norm|memory):|\)\s{1,9}tps:\s{1,9}\d")
_STEP = re.compile(rb"(?:validate )?step: ( {0,8})(\d{1,15})(?:/\d+ = [\d.]+%)?(?=  [a-z])")
# fields stand two spaces apart, so that one that lost its end is not followed by two
_FIELD = re.compile(rb"  ([a-z][\w./]{0,59}): ( {0,8})([^\s:]{1,60})(?=  [a-z]|\s|\Z)")
_NUMBER = re.compile(
    rb"([-+]?(?:(?:[1-9]\d{0,2}(?:,\d{3})+|0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?|nan|inf))(%|s)?", re.IGNORECASE
)
_MEMORY = re.compile(rb"((?:0|[1-9]\d{0,8})\.\d\d)GiB\(((?:0|[1-9]\d{0,8})\.\d\d)%\)")
_NAMED = {"tflops": "tflops_per_device", "tps": "tokens_per_s_per_device", "elapsed_time_per_step": "seconds",
          "step_time": "seconds"}  # fmt: skip
# {:8.5f}, earlier {:7.4f}; {:7.4f}; {:5.2f}
_DECIMALS = {"loss": (4, 5), "grad_norm": (4,), "tflops": (2,), "mfu": (2,), "tps": (0,), "wps": (0,)}
_THOUSANDS = frozenset({"tps", "wps", "tflops"})
_KEYS = frozenset({"loss", "grad_norm", "memory", "tps", "tflops", "mfu", "elapsed_time_per_step", "step_time", "wps"})
KNOWN = frozenset(_NAMED.get(key, key) for key in _KEYS) | {"memory_gib", "memory_pct"}
UNFINISHED = frozenset({"loss", "grad_norm", "tokens_per_s_per_device", "wps", "tflops_per_device"})


def parse(line: bytes, position: int, like: Row | None, is_end: bool) -> Row | None:
    """The row at a position; None if it is damaged, or if its end may have been cut."""
    head = _STEP.match(line, position)
    if head is None or (len(head[2]) < 2 and not head[1] and line.startswith(b"step", position)):
        return None
    width = len(head[1]) + len(head[2])
    fields, end = (
        [Field("step", int(head[2]), head.start(2), head.end(2), shape_of(head[2], width), "step")],
        head.end(),
    )
    keys: set[str] = {"step"}
    sure = False  # whether the last field says itself that it is whole
    while (found := _FIELD.match(line, end)) and (key := found[1].decode("utf-8", "replace")) not in keys:
        keys.add(key)
        end = found.end()
        if found[3] in (b"N/A", b"--"):
            sure = True
            continue
        read = _read(key, found)
        if read is None:
            return None
        fields += read
        sure = key == "memory" or found[3].endswith((b"%", b"s"))
    row = Row(head and int(head[2]), tuple(fields), position, end, certain=sure)
    if "loss" not in keys or line[end:].strip():
        return None
    if like is not None and line.startswith(b"step", position):
        before = like.columns
        if before != row.columns and before[: len(row.columns)] == row.columns:
            return None  # it ends early
    if is_end and end == len(line) and not sure:  # as many decimals as before
        last = fields[-1]
        if like is None or not any(one.key == last.key and one.shape == last.shape for one in like.fields):
            return None
    return row


def _read(key: str, found: re.Match[bytes]) -> list[Field] | None:
    """A match of `_FIELD` as one field, or as two: `3.20GiB(4.35%)`; None if a number in it is damaged."""
    text, at = found[3], found.start(3)
    if key == "memory":
        memory = _MEMORY.fullmatch(text)
        return memory and [
            Field(name, float(memory[group]), at + memory.start(group), at + memory.end(group), ("fixed", 2), key)
            for group, name in ((1, "memory_gib"), (2, "memory_pct"))
        ]
    number = _NUMBER.fullmatch(text)
    if number is None or (number[2] == b"s" and key in _DECIMALS):
        return None
    digits, width = number[1].replace(b",", b""), len(found[2]) + len(number[1])
    kind, decimals = shape_of(digits)
    value = float(digits)
    if kind == "open":
        return [Field(_NAMED.get(key, key), value, at, at + len(number[1]), (kind, 0), key)]
    if kind == "whole" and (key in _DECIMALS or b"," in number[1]):
        kind, decimals = "fixed", 0
    if decimals not in _DECIMALS.get(key, (decimals,)) or (kind == "exponent" and key in _DECIMALS):
        return None
    if math.isinf(value):  # an exponent that damage has made
        return None
    if key in _THOUSANDS:
        if b"," not in number[1] and value >= 1000:
            return None
        kind = "thousands"
    shape = (kind, width if kind == "whole" and width > len(digits) else decimals)
    if kind not in ("fixed", "thousands") or (key not in _DECIMALS and kind == "fixed"):
        shape = ("free", 0) if kind != "whole" else shape
    return [Field(_NAMED.get(key, key), value, at, at + len(number[1]), shape, key)]
