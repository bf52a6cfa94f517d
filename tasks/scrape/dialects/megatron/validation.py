"""Reads Megatron's validation rows: ` validation loss at iteration 50 | lm loss value: 8.9E+00 | lm loss PPL: … |`.

gpt-neox prints ` validation results at iteration 50 | lm_loss value: … | lm_loss_ppl value: … |`, and `test results`.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tasks.records import UnreadLine
from tasks.scrape.dialects.megatron.rows import NUMBER
from tasks.scrape.prefixes import time_before
from tasks.scrape.window import Window

_WHERE = rb" at (?:iteration {1,40}(\d{1,15})(?!\d)|(?!iteration)([^|\n]{1,120}?))((?: on| \[)[^|\n]{1,80}?)? {0,40}\|"
# each begins with a text of its own, which is found fast
_ROWS = (re.compile(rb"validation loss" + _WHERE), re.compile(rb"results" + _WHERE))
_KINDS = re.compile(rb"\b(?:validation|valid|(test)) \Z")  # of results
_FIELD = re.compile(rb" {0,40}([A-Za-z][^|\n:]{0,79}): {0,40}(%s) {0,40}\|" % NUMBER.encode(), re.IGNORECASE)
_AFTER = re.compile(rb"[ \t]*(?:\r?\n|\[|-{5,}|rank \d|iteration +\d|saving check|\Z)")
_SHAPE = re.compile(r"[-+]?\d+\.(\d+)[eE][-+]\d\d\d?")
_NAMES = {"lm loss value": "loss", "LM loss": "loss", "lm loss PPL": "perplexity", "LM PPL": "perplexity",
          "lm_loss value": "loss", "lm_loss_ppl value": "perplexity"}  # fmt: skip


@dataclass
class ValidationRows:
    """The validation rows so far."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    unread: list[UnreadLine] = field(default_factory=list)
    cut: bool = False

    def take(self, window: Window, step_before: Callable[[int], int | None]) -> None:
        """Read the rows that start in a window. `step_before`: the iteration of the last row before an offset."""
        found = (match for pattern in _ROWS for match in pattern.finditer(window.data, window.start))
        for match in sorted(found, key=lambda match: match.start()):
            if match.start() >= window.limit:
                break
            kind = _KINDS.search(window.data, max(0, match.start() - 20), match.start())
            if kind is None and match.re is _ROWS[1]:
                continue
            values = _read(window, match)
            source = window.source(match.start())
            if values is None:
                text = window.data[match.start() : match.start() + 200].split(b"\n")[0].decode("utf-8", "replace")
                self.unread.append(UnreadLine(line=source.line, offset=source.offset, text=text))
                self.cut |= window.last and window.is_last_line(match.start())
                continue
            where = (match[2] or match[3] or (kind[1] if kind else None) or b"").decode("utf-8", "replace").strip()
            self.rows.append(
                {
                    "step": int(match[1]) if match[1] else step_before(source.offset),
                    **values,
                    "set": where.removeprefix("on ").strip("[]") or None,
                    "time": time_before(window, match.start()),
                    "line": source.line,
                    "offset": source.offset,
                }
            )


def _read(window: Window, match: re.Match[bytes]) -> dict[str, float] | None:
    """The fields of a row; None if it is damaged. Megatron prints all of them with as many decimals."""
    values: dict[str, float] = {}
    decimals: set[int] = set()
    end = match.end()
    while found := _FIELD.match(window.data, end):
        key, text = found[1].decode("utf-8", "replace").strip(), found[2].decode()
        if (name := _NAMES.get(key, key)) in values:
            return None
        values[name] = float(text)
        if shape := _SHAPE.fullmatch(text):
            decimals.add(len(shape[1]))
        end = found.end()
    if not values or len(decimals) > 1 or not _AFTER.match(window.data, end):
        return None
    losses = [name for name in values if name == "loss" or name.endswith(" value")]
    whole = not losses or "perplexity" in values or any(name.endswith(" PPL") for name in values)
    return values if whole or not decimals else None
