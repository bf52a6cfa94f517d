"""The grammar of Megatron's rows: ` iteration 1/ 20 | key: value | … |` to its values and the way they are printed."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

# `iteration        1/      20 |`; RL forks print `iteration 1/infinity |`, Argonne's `iteration=       1/  317892 |`
_LOOSE = re.compile(rb"iteration[ =] {0,40}\d+ {0,40}/ {0,40}(?:\d+|infinity) {0,40}\|")
_HEAD = re.compile(rb"(iteration[ =])( {0,40})(0|[1-9]\d{0,14})( {0,40}/ {0,40})(\d{1,15}|infinity)( {0,40})\|")
# `key: value |`; the first versions print `key value |`, Argonne's `key=value |`; a head is none
_FIELD = re.compile(
    rb"( {0,40}(?!iteration[ =] {0,40}\d+ {0,40}/)[A-Za-z\[][^|\n:=]{0,79}?(?:: |=| ))"
    rb"( {0,40})([-+]?[\d.,a-zA-Z][^\s|=]{0,79}) {0,40}\|"
)
# what stands in every row behind its head: without a head, it is a row that lost one
_ONE = rb"\s{0,40}[\dnai][^\s|]{0,40}\s{0,40}\|\s{0,40}"
BODY = re.compile(
    rb"(elapsed[\s_]time[\s_]per[\s_]iteration)(?:\s\(m?s\):?\s|_ms=)\s{0,40}\d|"
    rb"(number of (?:nan|skipped) iterations):\s{0,40}\d|(learning rate):%sglobal batch size:|"
    rb"(loss scale):%s(?:grad|num)" % (_ONE, _ONE)
)
# C's and Python's: one digit before the point, exponents of two digits or of three where they need them, no `E-00`, and
# none that would make infinity of a number
EXPONENT = r"[eE](?:\+\d\d|-(?!00)\d\d|[-+](?:[12]\d\d|30[0-7]))"
NUMBER = rf"[-+]?(?:[1-9](?:\.\d+)?{EXPONENT}|0(?:\.0+)?[eE]\+00|(?:0|[1-9]\d*)(?:\.\d+)?|nan|inf(?:inity)?)"
_NUMBER = re.compile(NUMBER, re.IGNORECASE)
_FIXED = re.compile(r"[-+]?\d+\.(\d+)")
_EXPONENT = re.compile(r"[-+]?\d+(?:\.(\d+))?[eE][-+]\d\d\d?")
# what may stand behind a whole row: the end of the line, or what another rank or the next line glued to it
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
}  # fmt: skip
_COUNT = re.compile(r"number[ _]of[ _]")  # of iterations: digits alone
_ELAPSED = re.compile(r"elapsed[ _]time[ _]per[ _]iteration(?: \((ms|s)\)|_(ms))")
# printed with as many decimals as the number happens to have
FREE = frozenset({"num zeros", "learning_rate"})
AVERAGE = "{} (average)"
KNOWN = frozenset(_NAMED) | {
    "elapsed time per iteration (ms)", "elapsed time per iteration (s)", "consumed samples", "consumed tokens",
    "skipped samples", "learning rate", "decoupled learning rate", "global batch size", "loss scale", "grad norm",
    "num zeros", "params norm", "number of skipped iterations", "number of nan iterations", "samples per second",
    "load_balancing_loss", "seq_load_balancing_loss", "global_load_balancing_loss", "z_loss", "mtp_1 loss", "sop loss",
    "energy per GPU (J/iter/GPU)", "power per GPU (W/GPU)", "hip mem usage/free/total/usage_ratio", "mem usages",
    "actual seqlen", "curriculum seqlen", "seqlen", "consumed_samples", "consumed_tokens", "learning_rate",
    "global_batch_size", "loss_scale", "grad_norm", "actual_seqlen", "number_of_skipped_iterations",
    "number_of_nan_iterations", "samples_per_second", "elapsed_time_per_iteration_ms", "[DS]-TFLOPs", "[DS]TFLOPs",
}  # fmt: skip

Value = float | int | str


@dataclass(frozen=True)
class Shape:
    """How a value is printed. `digits`: the width of a padded whole number, else the decimals."""

    kind: str  # "whole", "fixed", "exponent", "open" (no finite number), "word", or two of them: "fixed/fixed"
    digits: tuple[int, ...] = ()


@dataclass(frozen=True)
class Field:
    """One `key: value |`. `values` by the names of the step table; `literal` is what stands before the padding."""

    key: str
    values: tuple[tuple[str, Value], ...]
    shape: Shape
    text: str
    literal: bytes
    width: int  # of the padding and the value

    @property
    def is_padded(self) -> bool:
        """Whether more blanks stand before the value than the one behind the colon."""
        return self.width > len(self.text)


@dataclass(frozen=True)
class Row:
    """One iteration row. Positions are those of `iteration` and behind the last bar."""

    step: int
    total: int | None
    step_field: Field
    tail: bytes  # `/      20 |`
    fields: tuple[Field, ...]
    start: int
    end: int
    glued: bool  # something else follows on the line

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the line, in order."""
        return tuple(field.key for field in self.fields)

    @property
    def values(self) -> dict[str, Value]:
        """The values by the names of the step table."""
        return {name: value for field in self.fields for name, value in field.values}


def find_heads(data: bytes, begin: int, end: int) -> Iterator[int]:
    """Where something that looks like a row starts."""
    for match in _LOOSE.finditer(data, begin, end):
        before = data[match.start() - 1 : match.start()]
        if not (before.isalnum() or before in (b"-", b"_")):
            yield match.start()


def parse_row(data: bytes, position: int, *, last: bool, final: str) -> Row | None:
    """The row at a position, or None if it is damaged or cut: every field ends with a bar, so none is read by half.

    `final`: the key with which the rows of this log end.
    """
    head = _HEAD.match(data, position)
    if head is None:
        return None
    end = head.end()
    fields: list[Field] = []
    keys: set[str] = set()
    losses = 0
    while match := _FIELD.match(data, end):
        field = read_field(match)
        losses += field is not None and field.values[0][0] == "loss"
        if field is None or field.key in keys or losses > 1:  # two losses, by whatever names, are those of two rows
            return None
        keys.add(field.key)
        fields.append(field)
        end = match.end()
    step, text, width = int(head[3]), head[3].decode(), len(head[2]) + len(head[3])
    total = int(head[5]) if head[5].isdigit() else None
    if not fields:
        return None
    row = Row(
        step=step,
        total=total,
        step_field=Field("iteration", (("step", step),), shape_of(text, width), text, head[1], width),
        tail=data[head.end(3) : head.end()],
        fields=tuple(fields),
        start=position,
        end=end,
        glued=data[end : end + 200].split(b"\n")[0].strip() != b"",
    )
    return row if _is_whole(data, row, last=last, final=final) else None


def _is_whole(data: bytes, row: Row, *, last: bool, final: str) -> bool:
    rest = data[row.end : row.end + 200]
    if not rest.strip(b" \t\r"):  # the text ends with the row: has it all fields?
        return last and row.keys[-1] == final
    return _AFTER.match(rest) is not None


def read_field(match: re.Match[bytes]) -> Field | None:
    """A match of `_FIELD` as a field; None if a number in it is damaged."""
    key = match[1].decode("utf-8", "replace").strip().rstrip(":=")
    text = match[3].decode("utf-8", "replace")
    values = _values(key, text)
    if values is None:
        return None
    width = len(match[2]) + len(match[3])
    return Field(key, tuple(values.items()), shape_of(text, width), text, match[1], width)


def shape_of(text: str, width: int) -> Shape:
    """How a value of so many characters, padding included, is printed."""
    if text.lstrip("+-").isdigit():
        return Shape("whole", (width,) if width > len(text) else (0,))
    if found := _FIXED.fullmatch(text):
        return Shape("fixed", (len(found[1]),))
    if found := _EXPONENT.fullmatch(text):
        return Shape("exponent", (len(found[1] or ""),))
    if _NUMBER.fullmatch(text):
        return Shape("open")
    parts = text.split("/")
    if len(parts) == 2 and all(_NUMBER.fullmatch(part) for part in parts):
        shapes = [shape_of(part, len(part)) for part in parts]
        return Shape("/".join(shape.kind for shape in shapes), tuple(n for shape in shapes for n in shape.digits))
    return Shape("word")


def _values(key: str, text: str) -> dict[str, Value] | None:
    """A field by the names of the step table; None if a number in it is damaged."""
    elapsed = _ELAPSED.fullmatch(key)
    parts = text.split("/")
    numbers = [_number(part) for part in parts]
    if elapsed or key in _NAMED:
        if not 1 <= len(parts) <= 2 or any(number is None for number in numbers):
            return None
        name = name_of(key)
        # the digits as they are printed, with the point moved
        floats = [float(part) for part in parts]
        if elapsed and elapsed[1] != "s":
            floats = [
                float(part + "e-3") if part.replace(".", "").isdigit() else value / 1000
                for part, value in zip(parts, floats, strict=True)
            ]
        # `instantaneous/average`
        return dict(zip((name, AVERAGE.format(name)), floats, strict=False))
    if len(parts) == 2 and all(number is not None for number in numbers):
        return {key: numbers[0] or 0, AVERAGE.format(key): numbers[1] or 0}
    if numbers[0] is not None and len(parts) == 1:
        return None if _COUNT.match(key) and not text.isdigit() else {key: numbers[0]}
    return None if key in KNOWN and "/" not in key else {key: text}


def name_of(key: str) -> str:
    """The name of a key's column."""
    return "seconds" if _ELAPSED.fullmatch(key) else _NAMED.get(key, key)


def is_elapsed(key: str) -> bool:
    """Whether the key's value is the time of an iteration."""
    return _ELAPSED.fullmatch(key) is not None


def is_milliseconds(key: str) -> bool:
    """Whether the key's values are a thousand times the seconds that its column holds."""
    elapsed = _ELAPSED.fullmatch(key)
    return elapsed is not None and elapsed[1] != "s"


def _number(text: str) -> float | int | None:
    if not _NUMBER.fullmatch(text):
        return None
    return int(text) if text.isdigit() else float(text)
