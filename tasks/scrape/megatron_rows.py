"""The grammar of Megatron's rows: ` iteration 1/ 20 | key: value | … |` and ` validation loss at … | … |`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

# `iteration        1/      20 |`; RL forks print `iteration 1/infinity |`
LOOSE = re.compile(rb"(?<![\w-])iteration +\d+ */ *(?:\d+|infinity) *\|")
_HEAD = re.compile(rb"iteration +(\d{1,15}) */ *(\d{1,15}|infinity) *\|")
_FIELD = re.compile(rb" {0,40}([A-Za-z][^|\n:]{0,79}?)(?:: {0,40}| )(%s) *\|" % rb"[-+]?[\d.,a-zA-Z][^\s|]{0,79}")
_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|nan|inf(?:inity)?)", re.IGNORECASE)
# what may stand behind a whole row: the end of the line, or what another rank or the next line glued to it
_AFTER = re.compile(
    rb"[ \t]*(?:\r?\n|\[|rank \d|Number of |Total number|Theoretical |\(min, max\)|time \(ms\)|-{5,}|saving check|"
    rb"iteration +\d|validation |WARNING|INFO|\w+: iteration)"
)
VALIDATION = re.compile(
    rb"validation loss at (?:iteration +(\d+)|([^|\n]{1,120}?))((?: on| \[)[^|\n]{1,80}?)? *\|((?:[^|\n]{1,100}\|?)+)"
)

_NAMED = {
    "lm loss": "loss", "lm-loss": "loss", "loss": "loss",
    "throughput per GPU (TFLOP/s/GPU)": "tflops_per_device", "TFLOPs": "tflops_per_device",
    "tokens per GPU (tokens/s/GPU)": "tokens_per_s_per_device",
    "tokens per gpu per second (tgs)": "tokens_per_s_per_device",
}  # fmt: skip
_ELAPSED = re.compile(r"elapsed time per iteration \((ms|s)\)")
AVERAGE = "{} (average)"
KNOWN = frozenset(_NAMED) | {
    "elapsed time per iteration (ms)", "elapsed time per iteration (s)", "consumed samples", "consumed tokens",
    "skipped samples", "learning rate", "decoupled learning rate", "global batch size", "loss scale", "grad norm",
    "num zeros", "params norm", "number of skipped iterations", "number of nan iterations", "samples per second",
    "load_balancing_loss", "z_loss", "mtp_1 loss", "energy per GPU (J/iter/GPU)", "power per GPU (W/GPU)",
    "hip mem usage/free/total/usage_ratio", "actual seqlen", "curriculum seqlen", "seqlen",
}  # fmt: skip

Value = float | int | str


@dataclass(frozen=True)
class Row:
    """One iteration row. `keys` are those that are printed, `values` by the names of the step table."""

    step: int
    total: int | None
    keys: tuple[str, ...]
    values: dict[str, Value]
    start: int
    end: int
    glued: bool  # something else follows on the line


def parse_row(data: bytes, position: int, *, last: bool, before: Row | None) -> Row | None:
    """The row at a position, or None if it is damaged or cut: every field ends with a bar, so none is read by half."""
    head = _HEAD.match(data, position)
    if head is None:
        return None
    end = head.end()
    keys: list[str] = []
    values: dict[str, Value] = {}
    while field := _FIELD.match(data, end):
        key = field[1].decode("utf-8", "replace").strip()
        read = _values(key, field[2].decode("utf-8", "replace"))
        if read is None or key in keys:
            return None
        keys.append(key)
        values |= read
        end = field.end()
    row = Row(
        step=int(head[1]),
        total=int(head[2]) if head[2].isdigit() else None,
        keys=tuple(keys),
        values=values,
        start=position,
        end=end,
        glued=data[end : end + 200].split(b"\n")[0].strip() != b"",
    )
    return row if keys and _is_whole(data, row, last=last, before=before) else None


def _is_whole(data: bytes, row: Row, *, last: bool, before: Row | None) -> bool:
    rest = data[row.end : row.end + 200]
    if not rest.strip(b" \t\r"):  # the text ends with the row: has it all fields?
        final = before.keys[-1] if before else "number of nan iterations"
        return last and row.keys[-1] == final
    if not _AFTER.match(rest):
        return False
    # cut between two fields
    return before is None or row.keys == before.keys or before.keys[: len(row.keys)] != row.keys


def _values(key: str, text: str) -> Mapping[str, Value] | None:
    """A field by the names of the step table; None if a number in it is damaged."""
    elapsed = _ELAPSED.fullmatch(key)
    parts = text.split("/")
    numbers = [_number(part) for part in parts]
    if elapsed or key in _NAMED:
        if not 1 <= len(parts) <= 2 or any(number is None for number in numbers):
            return None
        name = _NAMED.get(key, "seconds")
        # the digits as they are printed, with the point moved
        plain = elapsed is not None and elapsed[1] == "ms" and text.replace("/", "").replace(".", "").isdigit()
        floats = [float(part + "e-3") if plain else float(part) for part in parts]
        if elapsed and elapsed[1] == "ms" and not plain:
            floats = [value / 1000 for value in floats]
        # `instantaneous/average`
        return dict(zip((name, AVERAGE.format(name)), floats, strict=False))
    if len(parts) == 2 and all(number is not None for number in numbers):
        return {key: numbers[0] or 0, AVERAGE.format(key): numbers[1] or 0}
    if numbers[0] is not None and len(parts) == 1:
        return {key: numbers[0]}
    return None if key in KNOWN and "/" not in key else {key: text}


def _number(text: str) -> float | int | None:
    if not _NUMBER.fullmatch(text):
        return None
    return int(text) if text.isdigit() else float(text)


def parse_validation(match: re.Match[bytes], *, last_step: int | None) -> dict[str, Value | None]:
    """A validation row as the row of an evaluation; `set` is what it says behind the iteration, or instead of it."""
    values: dict[str, Value | None] = {}
    for field in _FIELD.finditer(match[4]):
        key = field[1].decode("utf-8", "replace").strip()
        number = _number(field[2].decode("utf-8", "replace"))
        name = {"lm loss value": "loss", "LM loss": "loss", "lm loss PPL": "perplexity", "LM PPL": "perplexity"}
        values[name.get(key, key)] = number
    where = (match[2] or match[3] or b"").decode("utf-8", "replace").strip()
    return {
        "step": int(match[1]) if match[1] else last_step,
        **values,
        "set": where.removeprefix("on ").strip("[]") or None,
    }
