"""Reads Megatron's validation rows: ` validation loss at iteration 50 | lm loss value: 8.9E+00 | lm loss PPL: … |`.

gpt-neox prints ` validation results at iteration 50 | lm_loss value: … | lm_loss_ppl value: … |`, and `test results`.
"""

import re
from typing import Any

from tasks.scrape.dialects.megatron.rows import NUMBER
from tasks.scrape.prefixes import time_before
from tasks.scrape.window import Window

_WHERE = rb" at (?:iteration {1,40}(\d{1,15})(?!\d)|(?!iteration)([^|\n]{1,120}?))((?: on| \[)[^|\n]{1,80}?)? {0,40}\|"
VALIDATION = rb"(?:validation loss|\b(?:validation|valid|(test)) results)" + _WHERE
_FIELD = re.compile(rb" {0,40}([A-Za-z][^|\n:]{0,79}): {0,40}(%s) {0,40}\|" % NUMBER.encode(), re.IGNORECASE)
_AFTER = re.compile(rb"[ \t]*(?:\r?\n|\[|-{5,}|rank \d|iteration +\d|saving check|\Z)")
_SHAPE = re.compile(r"[-+]?\d+\.(\d+)[eE][-+]\d\d\d?")
_NAMES = {"lm loss value": "loss", "LM loss": "loss", "lm loss PPL": "perplexity", "LM PPL": "perplexity",
          "lm_loss value": "loss", "lm_loss_ppl value": "perplexity"}  # fmt: skip


def read_validation(match: re.Match[bytes], window: Window, step_before: int | None) -> dict[str, Any] | None:
    """The row whose head was found; None if it is damaged. `step_before`: the iteration of the last row before it."""
    values = _values(window.data, match.end())
    if values is None:
        return None
    source = window.source(match.start())
    test, step, at, on = match.groups()
    where = (at or on or test or b"").decode("utf-8", "replace").strip()
    return {
        "step": int(step) if step else step_before, **values, "set": where.removeprefix("on ").strip("[]") or None,
        "time": time_before(window, match.start()), "line": source.line, "offset": source.offset,
    }  # fmt: skip


def _values(data: bytes, end: int) -> dict[str, float] | None:
    """The fields of a row; None if it is damaged. Megatron prints all of them with as many decimals."""
    values: dict[str, float] = {}
    decimals: set[int] = set()
    while found := _FIELD.match(data, end):
        key, text = found[1].decode("utf-8", "replace").strip(), found[2].decode()
        if (name := _NAMES.get(key, key)) in values:
            return None
        values[name] = float(text)
        if shape := _SHAPE.fullmatch(text):
            decimals.add(len(shape[1]))
        end = found.end()
    if not values or len(decimals) > 1 or not _AFTER.match(data, end):
        return None
    losses = [name for name in values if name == "loss" or name.endswith(" value")]
    whole = not losses or "perplexity" in values or any(name.endswith(" PPL") for name in values)
    return values if whole or not decimals else None
