"""The grammar of one step line: `completed step: 3, seconds: 0.148, …, loss: 9.734` to its values, or to nothing."""

import math
import re
from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise, takewhile

from tasks.scrape.prefix import ABSL

# whatever looks like a step line; MaxText prints profiler steps without their times
LOOSE = re.compile(rb"completed[ \t]+(?:profiler[ \t]+\S+[ \t]+)?step\b")
_HEAD = re.compile(rb"completed (?:profiler \S+ )?step: (0|[1-9]\d{0,17})(?!\d)")
# one blank each: a digit that became a blank leaves two
_KEY = re.compile(rb",[ \t]([A-Za-z](?:[^\s:,]| (?=\S)){0,59}):[ \t](?=\S)")
_NUMBER = re.compile(rb"[-+]?(?:(?:0|[1-9]\d*)(?:\.(\d+))?(?:[eE][-+]?\d+)?|nan|inf(?:inity)?)", re.IGNORECASE)
_WORD = re.compile(rb"[^\s,]+")
_GLUED = re.compile(rb"(?:%s|completed (?:step|profiler)|XPK End:|EXIT_CODE=)" % ABSL)

COLUMNS = {"TFLOP/s/device": "tflops_per_device", "Tokens/s/device": "tokens_per_s_per_device"}
# printed with three decimals by every version of MaxText; relatives show their own number in several lines, or in all
# numbers of one
THREE_DECIMALS = frozenset({"seconds", "TFLOP/s/device", "Tokens/s/device", "loss", "lm_loss", "perplexity"})
KNOWN_KEYS = frozenset(
    {"total_weights", "moe_lb_loss", "mtp_loss", "main_model_loss", "dpo_loss", "reward_accuracy", "indexer_loss"}
    | {"live slice count"}
    | THREE_DECIMALS
)
# what ends a value for certain: white space, and the escape that starts a terminal's colour
ENDS = frozenset(b" \t\r\n\x1b")
_OURS = frozenset({"step", "time", "line", "offset"})
TORN_FROM = 4  # characters of others' ends: `learning_rate` shares two with `loss` and `device`


@dataclass(frozen=True)
class Field:
    """One `key: value` of a step line. `decimals` is None where the value is no plain decimal number.

    `begin` and `end` are the positions of the value's text.
    """

    key: str
    value: float | int | str
    decimals: int | None
    begin: int
    end: int


@dataclass(frozen=True)
class StepLine:
    """A step line that was read whole. Positions are those of `completed` and of the end of the last value."""

    step: int
    fields: tuple[Field, ...]
    start: int
    end: int

    @property
    def form(self) -> tuple[tuple[str, int | None], ...]:
        """The keys with the decimals of their numbers: lines of one log share it."""
        return tuple((field.key, field.decimals) for field in self.fields)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the line, in order."""
        return tuple(field.key for field in self.fields)


def is_spliced(key: str) -> bool:
    """Whether an unknown key begins like a known one and ends like one: `TFLOP/onds`, where text was lost between."""
    known = KNOWN_KEYS - {key}
    return key not in KNOWN_KEYS and any(
        any(name.startswith(key[:cut]) for name in known) and any(name.endswith(key[cut:]) for name in known)
        for cut in range(1, len(key))
    )


def find_torn(keys: Collection[str]) -> set[str]:
    """The unknown ones of a log's keys that are a piece of another, or begin like one, end like one, and hold between
    what belongs to none: `total`, `Tokdnsevice`."""
    begins, ends = _shared(keys), {key[::-1]: count for key, count in _shared([key[::-1] for key in keys]).items()}
    return {
        key
        for key in keys
        if key not in KNOWN_KEYS
        and (
            len(key) in (begins[key], ends[key])
            or (min(begins[key], ends[key]) > 0 and begins[key] + ends[key] >= TORN_FROM)
        )
    }


def _shared(texts: Collection[str]) -> dict[str, int]:
    """With how many characters each text begins as another does: the most are those of a neighbour in their order."""
    shared = dict.fromkeys(texts, 0)
    for one, other in pairwise(sorted(shared)):
        count = common_start(one, other)
        shared[one], shared[other] = max(shared[one], count), max(shared[other], count)
    return shared


def common_start(one: str, other: str) -> int:
    """With how many equal characters two texts begin."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def column_name(key: str) -> str:
    """The name of a field's column: its own key, unless the records have a name for it or need the key themselves."""
    return COLUMNS.get(key, f"{key} (log)" if key in _OURS else key)


def parse_step(data: bytes, position: int, *, last: bool, before: StepLine | None) -> StepLine | None:
    """The step line at a position, or None if it is damaged: a number that may have been cut is never read.

    `last`: nothing follows `data`. `before`: a line that shows how this log prints them; numbers have as many decimals
    as there, and a line that ends earlier is only believed if its last number can be told to be whole by them.
    """
    line = split_step(data, position)
    if line is None or not all(_is_usual(field, before) for field in line.fields):
        return None
    return line if _is_whole(data, line, last=last, before=before) else None


def split_step(data: bytes, position: int) -> StepLine | None:
    """The step line at a position taken apart, whether or not it can be believed; None if it is no such line."""
    head = _HEAD.match(data, position)
    if head is None:
        return None
    end, fields, keys = head.end(), [], set()
    while data[end : end + 1] == b",":
        key = _KEY.match(data, end)
        if key is None:
            return None
        name = key[1].decode("utf-8", "replace")
        # no trainer's key; or the rest of this line was lost, with the beginning of the next
        if not name.isprintable() or "\ufffd" in name or LOOSE.search(key[1]):
            return None
        field, end = _parse_field(data, key.end(), name)
        if field is None or name in keys:
            return None
        keys.add(name)
        fields.append(field)
    return StepLine(int(head[1]), tuple(fields), position, end)


def _parse_field(data: bytes, position: int, key: str) -> tuple[Field | None, int]:
    number = _NUMBER.match(data, position)
    if number is not None and _ends(data, number.end()):
        text, end = number[0].decode(), number.end()
        if key == "total_weights":
            whole = text.removesuffix(".0")  # a count, however it is printed
            sound = whole.isdigit() and int(whole) < 1 << 63
            return (Field(key, int(whole), 0, position, end) if sound else None), end
        plain = text.lstrip("+-").replace(".", "", 1).isdigit()
        return Field(key, float(text), len(number[1] or b"") if plain else None, position, end), end
    word = _WORD.match(data, position)
    if word is None or key in KNOWN_KEYS:
        return None, position
    return Field(key, word[0].decode("utf-8", "replace"), None, position, word.end()), word.end()


def _ends(data: bytes, position: int) -> bool:
    """Whether a value can end here: for certain, before a comma, at the end, or before what was glued to it."""
    following = data[position : position + 1]
    return following in (b"", b",") or following[0] in ENDS or bool(_GLUED.match(data, position))


def _is_whole(data: bytes, line: StepLine, *, last: bool, before: StepLine | None) -> bool:
    """Whether the line's last value cannot have been cut."""
    if not line.fields:  # only MaxText's profiler steps have no value at all
        return data.startswith(b"completed profiler", line.start) and data[line.end : line.end + 1].isspace()
    final = line.fields[-1]
    if final.key == "total_weights":  # every version prints the loss behind it, and a count shows no cut
        return False
    following = data[line.end : line.end + 1]
    if not following:  # cut here, or a file without a final line break
        same = before is not None and before.keys == line.keys
        return last and same and final.key in THREE_DECIMALS and _is_certain(final, before)
    if following[0] not in ENDS:  # glued
        return _is_certain(final, before)
    ends_early = before is not None and before.keys != line.keys and before.keys[: len(line.keys)] == line.keys
    return _is_certain(final, before) if ends_early or final.key in THREE_DECIMALS else True


def _is_usual(field: Field, before: StepLine | None) -> bool:
    """Whether a number is printed as it always is; one with other decimals was put together from two."""
    if field.key not in THREE_DECIMALS or (isinstance(field.value, float) and not math.isfinite(field.value)):
        return True
    if before is not None:
        for other in before.fields:
            if other.key == field.key and other.decimals:
                return field.decimals == other.decimals
        usual = {other.decimals for other in before.fields if other.key in THREE_DECIMALS and other.decimals}
        if usual:
            return field.decimals in usual
    return field.decimals == 3


def _is_certain(final: Field, before: StepLine | None) -> bool:
    """Whether the last number has the decimals that its key has elsewhere: one that was cut has fewer."""
    if isinstance(final.value, float) and not math.isfinite(final.value):
        return True
    if not final.decimals:
        return False
    if before is not None:
        for field in before.fields:
            if field.key == final.key and field.decimals:
                return field.decimals == final.decimals
    return final.key in THREE_DECIMALS and final.decimals == 3
