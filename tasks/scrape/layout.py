"""Compiles one step line that the grammar has read into a layout: the bytes that all lines of its kind share, and the
columns in which they have digits of their own."""

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tasks.scrape.digits import DigitReader, Digits, Mask, Rows, split_number
from tasks.scrape.iso import PRINTED
from tasks.scrape.prefix import prefix_of_step
from tasks.scrape.step_line import ENDS, Field, StepLine

_HEAD = b"completed step: "
TIME = 1  # where the time begins: `0418 00:55:39.221671` in `I0418 00:55:39.221671 `
_EXACT = 15  # digits that a double holds whatever they are
_POWER = 22  # the powers of ten up to here are doubles: one division by them rounds as reading the decimal does
TILE = 16  # rows that are held against the layout as one: NumPy sets out anew for each
LONGEST = 2_000  # bytes of a line; longer ones are read one by one
INTEGERS = frozenset({"total_weights"})

type Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Number:
    """A number of the line: its key, its pieces of digits, and what makes the value of them."""

    key: str
    pieces: tuple[Digits, ...]
    power: int = 0  # the value is the digits / 10**power
    negative: bool = False

    @property
    def begins_above_zero(self) -> bool:
        """Whether its first digit is no zero, as that of every number with several digits before the point."""
        return sum(piece.whole for piece in self.pieces) > 1


@dataclass(frozen=True)
class Layout:
    """Lines that differ in nothing but the values of their digits.

    A row is such a line from its prefix to the byte behind it. A row belongs to the layout if each of its bytes lies
    between `least` and `most` of its column.
    """

    keys: tuple[str, ...]
    head: int  # bytes before `completed`
    timed: bool  # the head is a logger's prefix with the time
    step: Number
    floats: tuple[Number, ...]
    integers: tuple[Number, ...]
    constants: dict[str, float | str]  # values without digits of their own: nan, words
    least: Rows = field(repr=False)
    most: Rows = field(repr=False)
    text: bytes = field(repr=False)

    @property
    def width(self) -> int:
        """Bytes in a row."""
        return len(self.least)

    @property
    def signature(self) -> bytes:
        """Equal for equal layouts."""
        return self.least.tobytes() + self.most.tobytes()

    def fits(self, data: bytes, record: int) -> bool:
        """Whether the row that starts at a position is of this layout."""
        if record < 0 or record + self.width > len(data):
            return False
        row = np.frombuffer(data, np.uint8, self.width, record)
        return bool(((row >= self.least) & (row <= self.most)).all())

    @cached_property
    def divisors(self) -> Floats:
        """(floats, 1), or one for all: what to divide the digits of each number by; 1 where they must be multiplied."""
        divisors = [float(10 ** max(number.power, 0)) for number in self.floats]
        return np.array(divisors[0] if len(set(divisors)) == 1 else divisors).reshape(-1, 1)

    @cached_property
    def factors(self) -> tuple[float, ...]:
        """What to multiply the quotient of each float by: the sign, and powers of ten above 1."""
        return tuple(float((-1 if number.negative else 1) * 10 ** max(-number.power, 0)) for number in self.floats)

    @cached_property
    def commas(self) -> NDArray[np.int64]:
        """The columns of the commas."""
        return np.flatnonzero(self.least == ord(","))

    @cached_property
    def bounds(self) -> tuple[Rows, Rows]:
        """`least` and `most` of `TILE` rows that follow one another."""
        return np.tile(self.least, TILE), np.tile(self.most, TILE)

    @cached_property
    def reader(self) -> DigitReader:
        """Reads the digits of the step, of the whole numbers and of the decimals, in this order."""
        return DigitReader([number.pieces for number in (self.step, *self.integers, *self.floats)])


def layout_of(data: bytes, line: StepLine) -> Layout | None:
    """The layout of a line, or None if lines of its kind are better read one by one."""
    prefix = prefix_of_step(data, line.start)
    begin = prefix.start if prefix else line.start
    text = data[begin : line.end + 1]
    head, first = line.start - begin, _HEAD + b"%d" % line.step
    whole = begin + len(text) == line.end + 1 and text[-1] in ENDS and text.startswith(first, head)
    if not whole or len(text) > LONGEST:
        return None
    row = np.frombuffer(text, np.uint8)
    own = np.zeros(len(text), np.bool_)  # the columns with digits
    own[head + len(_HEAD) : head + len(first)] = True
    step = Number("step", split_number(head + len(_HEAD), len(first) - len(_HEAD), 0))
    if prefix:
        time = slice(TIME, TIME + PRINTED)
        own[time] = (row[time] >= ord("0")) & (row[time] <= ord("9"))
    numbers: list[Number] = []
    constants: dict[str, float | str] = {}
    for item in line.fields:
        if isinstance(item.value, str) or not math.isfinite(item.value):
            constants[item.key] = item.value
            continue
        number = _number_of(text, item, begin, own)
        if number is None:
            return None
        numbers.append(number)
    least, most = np.where(own, np.uint8(ord("0")), row), np.where(own, np.uint8(ord("9")), row)
    for number in (step, *numbers):
        if number.begins_above_zero:
            least[number.pieces[-1].begin] = ord("1")
    return Layout(
        keys=line.keys,
        head=head,
        timed=prefix is not None,
        step=step,
        floats=tuple(number for number in numbers if number.key not in INTEGERS),
        integers=tuple(number for number in numbers if number.key in INTEGERS),
        constants=constants,
        least=least,
        most=most,
        text=text,
    )


def _number_of(text: bytes, item: Field, row_begin: int, own: Mask) -> Number | None:
    """A field's number; marks its columns. None if its value is not one exact division away from its digits."""
    begin, end = item.begin - row_begin, item.end - row_begin
    sign = text[begin : begin + 1]
    begin += sign in (b"-", b"+")
    mantissa, _, exponent = text[begin:end].lower().partition(b"e")
    before, point, behind = mantissa.partition(b".")
    power = len(behind) - int(exponent or 0)  # an exponent is part of the layout
    exact = len(before) + len(behind) <= _EXACT and -_POWER <= power <= _POWER
    if not exact or (item.key in INTEGERS and (point or exponent or sign == b"-")):
        return None
    own[begin : begin + len(before)] = True
    own[begin + len(before) + len(point) : begin + len(mantissa)] = True
    return Number(item.key, split_number(begin, len(before), len(behind)), power, negative=sign == b"-")
