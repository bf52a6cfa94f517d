"""Makes logs of every dialect, damages and wraps them, and tries the readers on them."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from tests.fuzzing.damage import damage, wrap
from tests.fuzzing.judge_reading import judge, read
from tests.fuzzing.specs import SPECS, Numbers, Spec, Written

__all__ = [
    "SPECS", "Example", "damage", "draw_example", "judge", "make_example", "repeat_piece", "try_example", "write_log",
    "write_two",
]  # fmt: skip
REPEATED = 900_000  # bytes


def write_log(spec: Spec, draw: random.Random, rows: int) -> Written:
    """A whole log of one writer."""
    every = draw.choice((1, 1, 10))
    constants = {each.column: draw.uniform(each.low, each.high) for each in spec.fields if each.tied}
    lines, found = _write_rows(spec, draw, constants, rows, every)
    text = "".join(f"{line}\n" for line in (*spec.before, *lines, *spec.after))
    return Written(spec, text.encode(), found)


def write_two(spec: Spec, draw: random.Random, rows: int) -> Written:
    """A log of two writers whose lines alternate, some of them on one line, with other lines between their rows."""
    every = draw.choice((1, 1, 10))
    constants = {each.column: draw.uniform(each.low, each.high) for each in spec.fields if each.tied}
    first, found = _write_rows(spec, draw, constants, rows, every, others=True)
    second, more = _write_rows(spec, draw, constants, rows if draw.random() < 0.5 else 0, every, others=True)
    second = [line.replace(*spec.second) for line in second] if spec.second[0] else second
    lines: list[str] = []
    while first or second:
        source = first if first and (not second or draw.random() < 0.5) else second
        lines.append(source.pop(0) + ("" if draw.random() < 0.05 else "\n"))
    text = "".join([*(f"{line}\n" for line in spec.before), *lines, *(f"{line}\n" for line in spec.after)])
    return Written(spec, text.encode(), [*found, *more])


def _write_rows(
    spec: Spec, draw: random.Random, constants: Numbers, rows: int, every: int, *, others: bool = False
) -> tuple[list[str], list[tuple[int, Numbers, str]]]:
    found: list[tuple[int, Numbers, str]] = []
    lines: list[str] = []
    for number in range(rows):
        step = (number + (spec.name != "maxtext")) * (every if spec.name == "megatron" else 1)
        row, numbers = spec.row(draw, step, constants)
        if others and draw.random() < 0.3:
            lines += spec.other(draw)
        lines.append(spec.prefix(step) + row + ("%" if spec.name == "torchtitan" else ""))
        found.append((step, numbers, row))
        if draw.random() < 0.1:
            lines.append("WARNING: dataset is being re-looped")
    return lines, found


@dataclass(frozen=True)
class Example:
    """A log and its damaged, wrapped form."""

    written: Written
    data: bytes


def make_example(spec: Spec, seed: int) -> Example:
    """Deterministic by seed: damaged and then wrapped, or wrapped and then damaged."""
    return draw_example(spec, random.Random(f"{spec.name} {seed}"), (1, 2, 5, 8, 12, 20, 130))


def draw_example(spec: Spec, draw: random.Random, sizes: Sequence[int]) -> Example:
    """An example whose log has one of these numbers of rows. `draw` makes all choices."""
    write = write_log if draw.random() < 0.7 else write_two
    written = write(spec, draw, draw.choice(sizes))
    if draw.random() < 0.7:
        return Example(written, wrap(damage(written.text, draw), draw))
    return Example(written, damage(wrap(written.text, draw), draw))


def repeat_piece(example: Example, seed: int) -> bytes:
    """A log that continues with one piece of its text, repeated: work per repetition must stay cheap."""
    draw, text = random.Random(seed), example.written.text
    begin = draw.randrange(len(text))
    piece = text[begin : begin + draw.choice((1, 7, 20, 40, 80, 160))]
    if draw.random() < 0.7:
        piece = piece.replace(b"\n", b" ")
    return text + piece * (REPEATED // len(piece))


def try_example(example: Example) -> tuple[bool, list[str]]:
    """Return whether the log was read, and the problems of the reading."""
    reading = read(example.data)
    return reading is not None, [] if reading is None else list(judge(example.written, example.data, reading))
