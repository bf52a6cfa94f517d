"""Knows how torchtitan prints the fields of a row: their numbers, and what tells that text was lost from them."""

import math
import re
from collections.abc import Callable
from typing import Any

# fields stand two spaces apart, so that one that lost its end is not followed by two
_FIELD = re.compile(rb"  ([a-z][\w./]{0,59}):( {0,9}[^\s:]{1,60})(?=  [a-z]|\s|\Z)")
_NUMBER = rb"[-+]?(?:(?:[1-9]\d{0,2}(?:,\d{3})+|0|[1-9]\d*)(?:\.(\d+))?(?:[eE][-+]?\d+)?|nan|inf)"
_PLAIN = re.compile(_NUMBER + rb"(%|s)?", re.IGNORECASE)
# {:8.5f}, earlier {:7.4f}; {:7.4f}; {:5.2f}: as wide as a digit, a sign and a point before the decimals are, and so is
# what is no number
_DECIMALS = {"loss": (4, 5), "grad_norm": (4,), "memory": (2,), "tflops": (2,), "mfu": (2,), "tps": (0,), "wps": (0,)}
WHOLE_WIDTH = 3  # a digit, a sign and a point
_PADDED = frozenset({"loss", "grad_norm", "memory"})
_THOUSANDS = frozenset({"tps", "wps", "tflops"})
_MEMORY = re.compile(rb"((?:0|[1-9]\d{0,8})\.\d\d)GiB\(((?:0|[1-9]\d{0,8})\.\d\d)%\)")
_NAMED = {"tflops": "tflops_per_device", "tps": "tokens_per_s_per_device", "elapsed_time_per_step": "seconds",
          "step_time": "seconds"}  # fmt: skip
KNOWN = frozenset({"loss", "grad_norm", "memory", "tps", "tflops", "mfu", "elapsed_time_per_step", "step_time", "wps"})

type Fields = list[tuple[str, bytes]]  # the keys, and what stands behind the colons
type Form = tuple[tuple[str, int | None], ...]  # the keys, and the decimals of their numbers


def fields_at(data: bytes, begin: int) -> tuple[Fields, int]:
    """The fields that follow one another from a position on, and where they end."""
    fields: Fields = []
    seen = {b"step"}
    while (field := _FIELD.match(data, begin)) and field[1] not in seen:  # a key twice is of another row
        seen.add(field[1])
        fields.append((field[1].decode("utf-8", "replace"), field[2]))
        begin = field.end()
    return fields, begin


def values_of(fields: Fields, *, is_last: bool, decimals_of: dict[str, int]) -> dict[str, Any] | None:
    """The fields by the names of the step table; None if one is damaged, or if the end may have cut the last.

    `decimals_of`: the decimals that each key had before; those of these fields are put into it.
    """
    values: dict[str, Any] = {}
    for index, (key, printed) in enumerate(fields):
        text = printed.strip()
        if text in (b"N/A", b"--"):
            values[_NAMED.get(key, key)] = None
            continue
        memory = _MEMORY.fullmatch(text) if key == "memory" else None
        plain = _PLAIN.fullmatch(text) if key != "memory" else None
        if key in values or (memory is None and plain is None) or not _is_usual(key, printed):
            return None
        if memory:
            values |= {"memory_gib": float(memory[1]), "memory_pct": float(memory[2])}
        elif plain:
            decimals = len(plain[1] or b"")
            # `mfu: 0.23%` and `5.1s` say themselves that they are whole; others have the decimals they always have
            if index == len(fields) - 1 and not plain[2] and is_last and decimals != decimals_of.get(key):
                return None
            decimals_of[key] = decimals
            value = float(text.rstrip(b"%s").replace(b",", b""))
            if math.isinf(value) and plain[0][-1:].isdigit():  # an exponent that damage has made
                return None
            values[_NAMED.get(key, key)] = value
    return values


def form_of(fields: Fields) -> Form:
    return tuple((key, _decimals(key, text)) for key, text in fields)


def _decimals(key: str, printed: bytes) -> int | None:
    """How many decimals a number has, or has room for; None where it does not show."""
    text = printed.strip()
    plain = _PLAIN.fullmatch(text)
    if plain is None:
        return 2 if _MEMORY.fullmatch(text) else None
    if plain[0][-2:-1].isdigit() or plain[0][:1].isdigit():
        return len(plain[1] or b"")
    return len(printed) - 1 - WHOLE_WIDTH if key in _PADDED else None


def fitting(trusted: list[Form]) -> Callable[[Form], bool]:
    """Tells whether a form differs from one of the trusted only where a number is none."""
    known: dict[str, set[int]] = {}
    for key, decimals in (pair for other in trusted for pair in other):
        if decimals is not None:
            known.setdefault(key, set()).add(decimals)

    def fits_into(form: Form, other: Form) -> bool:
        return len(form) == len(other) and all(
            key == named and (decimals in (usual, None) or (usual is None and decimals in known.get(key, {decimals})))
            for (key, decimals), (named, usual) in zip(form, other, strict=True)
        )

    return lambda form: any(fits_into(form, other) for other in trusted)


def _is_usual(key: str, printed: bytes) -> bool:
    """Whether a number is printed as every version does; one that lost a digit is not, if it is padded."""
    if not printed.startswith(b" "):
        return False
    number = printed[1:].split(b"GiB")[0]
    digits = number.strip()
    if digits.endswith(b"s") and key in _PADDED | _THOUSANDS | {"mfu"}:
        return False  # none of these is a time
    if not digits[-1:].isdigit() and not digits.endswith(b"%"):  # no number
        return key not in _PADDED or len(number) - WHOLE_WIDTH in _DECIMALS[key]
    if key in _THOUSANDS | {"mfu"} and number.startswith((b" ", b"-")):
        return False  # they are neither padded nor negative
    whole, _, fraction = digits.rstrip(b"%").partition(b".")
    if key in _DECIMALS and len(fraction) not in _DECIMALS[key]:
        return False
    if key in _THOUSANDS and b"," not in whole and len(whole) > 3:
        return False
    if key not in _PADDED:
        return True
    width = len(fraction) + WHOLE_WIDTH
    return len(number) >= width and (len(number) == width or not number.startswith(b" "))
