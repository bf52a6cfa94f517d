"""Makes logs of every dialect, wraps and damages them, and judges a reading of what is left by what was written.

A number is right if it was written in the row of its step. What else is excused, because the text alone cannot tell it:

- a number that stands under its key letter for letter as the trainer prints it: a digit that became another, or one
  lost or doubled where the number keeps its decimals and its padding. That is every digit of Megatron's numbers with an
  exponent, of a padded or a grouped number only one that became another, and with `.3f` those before the point;
- in a log of one row, a number as an earlier version of the trainer printed it;
- a number of a row whose own step number was damaged in this way.

Not excused are, in a MaxText log of twelve rows or more, numbers that the rows around contradict (`_missed`): a step
out of its order, and seconds, rates and perplexities that are off by a tenth or more where both neighbours are right.
"""

import gzip
import json
import math
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any

import zstandard

from tasks.records import LogReading, RunReading
from tasks.scrape import LogFormatError, display_lines, scrape_text, to_json
from tasks.scrape.unwrap import unwrap
from tasks.scrape.window import slices

Numbers = Mapping[str, float]
_TOKEN = re.compile(r" *[-+]?\d[\d,]*(?<=\d)(?:\.\d+)?(?:E[-+]\d+)?")


@dataclass(frozen=True)
class Printed:
    """One number of a row: what stands before it, its column, its format, and what its value is times."""

    literal: str
    column: str
    form: str
    low: float
    high: float
    exponent: str = ""  # moves the point of the digits, "e-3" for milliseconds
    older: str = ""  # the format of earlier versions
    skippable: bool = False  # left out where the iteration was skipped
    # the value out of those before it and of one number that is the same in all of the log
    tied: Callable[[Mapping[str, float], float], float] | None = None

    def text(self, value: float) -> str:
        """The number as the trainer prints it."""
        return format(int(value) if self.form.endswith(("d", ",")) else value, self.form)


@dataclass(frozen=True)
class Spec:
    """How a dialect prints a row: `head` and `step_form` before the fields, `ends` behind them."""

    name: str
    prefix: Callable[[int], str]
    head: str
    step_form: str
    after_step: str
    fields: tuple[Printed, ...]
    between: str  # what ends a field
    before: tuple[str, ...]  # lines that open the log
    after: tuple[str, ...]
    skips: bool = False

    def row(self, draw: random.Random, step: int, constants: Numbers) -> tuple[str, dict[str, float]]:
        """A row without its prefix, and its numbers by column."""
        values: dict[str, float] = {}
        skipped = self.skips and draw.random() < 0.2
        text, numbers = self.head + format(step, self.step_form) + self.after_step, {"step": float(step)}
        for each in self.fields:
            if skipped and each.skippable:
                continue
            value = draw.uniform(each.low, each.high)
            if each.tied:
                value = each.tied(values, constants[each.column])
            values[each.column] = value
            if each.column == "number of skipped iterations":
                value = float(skipped)
            printed = each.text(value)
            numbers[each.column] = _value(printed, each)
            text += each.literal + printed + self.between
        return text, numbers


def _token(text: str) -> str | None:
    """The number at the begin of a text, padding included."""
    found = _TOKEN.match(text)
    return found[0] if found else None


def _value(printed: str, each: Printed) -> float:
    return float(printed.strip().replace(",", "") + each.exponent)


def _absl(step: int) -> str:
    return f"I0418 00:{step // 60 % 60:02d}:{step % 60:02d}.221671 135104514455360 metric_logger.py:196] "


def _bracket(step: int) -> str:
    return f" [2025-06-28 18:{step // 60 % 60:02d}:{step % 60:02d}] "


def _titan(step: int) -> str:
    return f"[rank0]:[titan] 2025-06-20 19:{step // 60 % 60:02d}:{step % 60:02d},663 - root - INFO - "


def _rate(values: Numbers, work: float) -> float:
    return work / values["seconds"]


_MAXTEXT = (
    Printed("", "seconds", ".3f", 0.1, 30), Printed("TFLOP/s/device: ", "tflops_per_device", ".3f", 1, 400, tied=_rate),
    Printed("Tokens/s/device: ", "tokens_per_s_per_device", ".3f", 10, 20_000, tied=_rate),
    Printed("total_weights: ", "total_weights", "d", 1000, 70_000), Printed("loss: ", "loss", ".3f", 1, 12),
)  # fmt: skip
_NEWER = (
    Printed("lm_loss: ", "lm_loss", ".3f", 1, 12),
    Printed("perplexity: ", "perplexity", ".3f", 1, 1, tied=lambda values, _: math.exp(values["lm_loss"])),
)
# what is the same in every row of a MaxText log
_TIES: Mapping[tuple[str, str], Callable[[float, float], float]] = {
    ("seconds", "tflops_per_device"): lambda seconds, rate: seconds * rate,
    ("seconds", "tokens_per_s_per_device"): lambda seconds, rate: seconds * rate,
    ("lm_loss", "perplexity"): lambda loss, perplexity: perplexity * math.exp(-loss),
}


def _commas(fields: tuple[Printed, ...]) -> tuple[Printed, ...]:
    return tuple(replace(each, literal=("" if not n else ", ") + each.literal) for n, each in enumerate(fields))


SPECS = (
    Spec(
        "maxtext", _absl, "completed step: ", "d", ", seconds: ", _commas((*_MAXTEXT, *_NEWER)), "",
        ("XPK Start: Sat Apr 18 00:00:00 UTC 2026", "System Information: Jax Version: 0.9.2"),
        ("XPK End: Sat Apr 18 01:00:00 UTC 2026", "EXIT_CODE=0"),
    ),
    Spec(
        "maxview", lambda step: "", "completed step: ", "d", ", seconds: ", _commas(_MAXTEXT), "",
        ("System Information: Jax Version: 0.12.0",), ("EXIT_CODE=0",),
    ),
    Spec(
        "megatron", _bracket, "iteration ", "8d", "/     200 |", (
            Printed(" consumed samples: ", "consumed samples", "12d", 1, 10**6),
            Printed(" elapsed time per iteration (ms): ", "seconds", ".1f", 100, 9999, exponent="e-3"),
            Printed(" learning rate: ", "learning rate", ".6E", 1e-6, 1e-3),
            Printed(" global batch size: ", "global batch size", "5d", 8, 64),
            Printed(" lm loss: ", "loss", ".6E", 1, 12, skippable=True),
            Printed(" loss scale: ", "loss scale", ".1f", 1, 70_000),
            Printed(" grad norm: ", "grad norm", ".3f", 0, 90, skippable=True),
            Printed(" number of skipped iterations: ", "number of skipped iterations", "3d", 0, 1),
            Printed(" number of nan iterations: ", "number of nan iterations", "3d", 0, 0),
        ), " |", ("using world size: 8, data-parallel size: 8",),
        ("[after training is done] datetime: 2025-06-28 19:00:00 ",), skips=True,
    ),
    Spec(
        "torchtitan", _titan, "step: ", "2d", "", (
            Printed("  loss: ", "loss", "8.5f", 1, 13, older="7.4f"),
            Printed("  grad_norm: ", "grad_norm", "7.4f", 0, 99),
            Printed("  memory: ", "memory_gib", "5.2f", 1, 99), Printed("GiB(", "memory_pct", ".2f", 1, 99),
            Printed("%)  tps: ", "tokens_per_s_per_device", ",", 100, 99_999),
            Printed("  tflops: ", "tflops_per_device", ",.2f", 1, 2000),
            Printed("  mfu: ", "mfu", ".2f", 1, 60),
        ), "", ("[titan] 2025-06-20 19:13:39,663 - root - INFO - Training starts at step 1.",),
        ("[rank0]:[titan] 2025-06-20 19:20:39,663 - root - INFO - Training completed",),
    ),
)  # fmt: skip


@dataclass
class Written:
    """A log and the numbers in it: (step, numbers, row) of every row."""

    spec: Spec
    text: bytes
    rows: Sequence[tuple[int, Numbers, str]] = field(default_factory=list)


def write_log(spec: Spec, draw: random.Random, rows: int) -> Written:
    """A whole log."""
    every = draw.choice((1, 1, 10))
    found: list[tuple[int, Numbers, str]] = []
    lines = list(spec.before)
    constants = {each.column: draw.uniform(each.low, each.high) for each in spec.fields if each.tied}
    for number in range(rows):
        step = (number + (spec.name != "maxtext")) * (every if spec.name == "megatron" else 1)
        row, numbers = spec.row(draw, step, constants)
        end = "%" if spec.name == "torchtitan" else ""
        lines.append(spec.prefix(step) + row + end)
        found.append((step, numbers, row))
        if draw.random() < 0.1:
            lines.append("WARNING: dataset is being re-looped")
    return Written(spec, "".join(f"{line}\n" for line in (*lines, *spec.after)).encode(), found)


def damage(data: bytes, draw: random.Random) -> bytes:
    """Cut, flip, double, delete, insert or move a few stretches of bytes."""
    text = bytearray(data)
    for _ in range(draw.choice((0, 1, 1, 1, 2, 3, 6))):
        begin = draw.randrange(len(text) + 1)
        end = min(len(text), begin + draw.choice((1, 1, 2, 5, 20, 100, 400)))
        piece = bytes(text[begin:end])
        match draw.randrange(9):
            case 0 | 1:
                del text[begin:end]
            case 2:
                text[begin:begin] = piece
            case 3:
                text[begin:end] = piece.replace(b"\n", b" ")
            case 4:
                text[begin:end] = piece.replace(b" ", b"\n")
            case 5:
                text[begin:end] = draw.randbytes(draw.randrange(20)).replace(b"\0", b"")
            case 6 if begin < len(text):
                text[begin] ^= 1 << draw.randrange(8)
            case 7:
                del text[begin:]
            case _:
                place = draw.randrange(len(text) + 1)
                text[place:place] = piece
        if not text:
            return b" "
    return bytes(text).replace(b"\0", b"\x01")


def _colour(data: bytes) -> bytes:
    return data.replace(b"step", b"\x1b[31mstep").replace(b"loss", b"\x1b[32mloss\x1b[39m")


def _bars(data: bytes) -> bytes:
    return b" 50%|#####     | 1/2 [00:01<00:01]\r".join(line + b"\n" for line in data.split(b"\n"))


def _pods(data: bytes) -> bytes:
    return b"".join(b"[pod/job-0-abc/main] " + line + b"\n" for line in data.split(b"\n"))


def _json(data: bytes, draw: random.Random, *, lines: bool) -> bytes:
    entries = [
        {"textPayload": line, "timestamp": f"2026-04-18T00:{n // 60:02d}:{n % 60:02d}.5Z", "insertId": f"{n:06d}"}
        for n, line in enumerate(data.decode("utf-8", "replace").split("\n"))
    ]
    draw.shuffle(entries)
    return "\n".join(map(json.dumps, entries)).encode() if lines else json.dumps(entries, indent=1).encode()


def wrap(data: bytes, draw: random.Random) -> bytes:
    """One of the wrappings, or none."""
    match draw.randrange(12):
        case 0:
            return gzip.compress(data, 1)
        case 1:
            return zstandard.compress(data, 1)
        case 2:
            return _json(data, draw, lines=True)
        case 3:
            return _json(data, draw, lines=False)
        case 4:
            return _colour(data)
        case 5:
            return _bars(data)
        case 6:
            return _pods(data)
        case 7:
            return data.replace(b"\n", b" ")
        case 8:
            return data.replace(b"\n", b"\r\n")
        case _:
            return data


def read(data: bytes) -> LogReading | None:
    """The reading; None if it was refused in the documented way."""
    try:
        return scrape_text(data, name="fuzz")
    except LogFormatError:
        return None


def texts_in(data: bytes) -> list[bytes]:
    """What is inside the wrappings, one text per source."""
    with unwrap(partial(slices, data, 0, len(data)), "fuzz") as found:
        return [b"".join(chunks()) for chunks in found.logs.values()]


def judge(written: Written, data: bytes, reading: LogReading) -> Iterator[str]:
    """What is wrong with a reading of damaged and wrapped data."""
    to_json(reading)
    texts = texts_in(data)
    if len(texts) != len(reading.runs):
        texts = [b"\n".join(texts)] * len(reading.runs)
    for text, run in zip(texts, reading.runs, strict=True):
        yield from _judge_run(written, text, run)
    steps = {int(step) for run in reading.runs for step in run.steps["step"]}
    told = any(map(_tells, reading.runs)) or len(reading.runs) > 1
    told = told or bool(steps - {step for step, _, _ in written.rows})  # one of them under another number
    for step, _, printed in written.rows:
        rest = printed[len(printed) // 4 :][:100].encode()
        if step not in steps and (rest in b"\n".join(texts) or rest in data) and not told:
            yield f"row {step} is in the text, was not read, and the coverage says nothing"


def _tells(run: RunReading) -> bool:
    """Whether the receipt says that something is missing."""
    coverage = run.coverage
    told = not coverage.complete or coverage.truncated or coverage.step_lines_seen > coverage.step_lines_parsed
    return told or any((coverage.gaps, coverage.unread, coverage.unknown_keys, coverage.rewinds))


def _judge_run(written: Written, text: bytes, run: RunReading) -> Iterator[str]:
    coverage = run.coverage
    many_ranks = run.format == "torchtitan" and run.steps.height <= coverage.step_lines_parsed
    exact = run.steps.height == coverage.step_lines_parsed
    if not (exact or many_ranks) or coverage.step_lines_parsed > coverage.step_lines_seen:
        yield f"{run.steps.height} rows, {coverage.step_lines_parsed} parsed of {coverage.step_lines_seen} seen"
    offsets = [offset for offset, _ in display_lines(text, (0, len(text)))]
    if offsets != sorted(set(offsets)):
        yield "the lines for display overlap"
    yield from _missed(written, run)
    for row in run.steps.iter_rows(named=True):
        numbers = {key: float(value) for key, value in row.items() if isinstance(value, int | float)}
        offset = int(numbers.pop("offset"))
        numbers.pop("line")
        # a key that was damaged is told as one that nobody knows
        numbers = {key: value for key, value in numbers.items() if key not in coverage.unknown_keys}
        alone = run.steps["step"].n_unique() == 1
        if not _was_written(written, numbers, alone, text[offset : offset + 1500].decode("utf-8", "replace")):
            yield f"at {offset} of {text[offset : offset + 300]!r}: {numbers} was not written"


def _missed(written: Written, run: RunReading) -> Iterator[str]:
    """Numbers that stand whole in the text, but that the rows around them tell to be others."""
    rows = run.steps.to_dicts()
    if run.format != "maxtext" or len(rows) < 12:
        return
    wrong = [_contradicted(written, row, before["step"] + 1) for before, row in pairwise(rows)]
    wrong = [[], *wrong]
    if sum(map(bool, wrong)) > 1:
        return  # more than one in so few: the rows that are right may be too few to tell
    for index in range(1, len(rows) - 1):
        before, row, after = rows[index - 1 : index + 2]
        right = not wrong[index - 1] and not wrong[index + 1] and after["step"] == before["step"] + 2
        if wrong[index] and right:
            yield f"{wrong[index]} of {row} contradict the rows around it"


def _contradicted(written: Written, row: Mapping[str, Any], step: int) -> list[str]:
    """The numbers of a row that are not those written at this step, by more than rounding hides."""
    printed = next((numbers for number, numbers, _ in written.rows if number == step), {})
    wrong = [] if row["step"] == step or not printed else ["step"]
    if not printed:
        return wrong
    for key, tie in _TIES.items():
        values = [float(row[each]) for each in key if row.get(each) is not None]
        if len(values) == len(key) and min(printed.get(each, 0) for each in key) > 0.05:
            right = tie(*(printed[each] for each in key))
            wrong += [" and ".join(key)] if abs(tie(*values) - right) > 0.1 * right else []
    return wrong


def _was_written(written: Written, numbers: Numbers, alone: bool, place: str) -> bool:
    """Whether each number was written in the row of this step, or stands whole under its key in the text."""
    rows = [printed for step, printed, _ in written.rows if step == numbers["step"]] or [{}]
    for printed in rows:
        wrong = [key for key, value in numbers.items() if not (key in printed and _same(value, printed[key]))]
        if all(key == "step" or _stands(written.spec, place, key, numbers[key], alone) for key in wrong):
            return "step" not in wrong or _is_step(written.spec, place, numbers["step"])
    return False


def _is_step(spec: Spec, place: str, step: float) -> bool:
    return place.startswith(spec.head + format(int(step), spec.step_form) + spec.after_step.split("s")[0])


def _stands(spec: Spec, place: str, column: str, value: float, alone: bool) -> bool:
    """Whether a column's key and number stand in the text as the trainer prints them, or printed them earlier."""
    for each in spec.fields:
        if each.column == column:
            literal = each.literal or spec.after_step
            for begin in (match.end() for match in re.finditer(re.escape(literal), place)):
                token = _token(place[begin:])
                if token is None:
                    continue
                plain = float(token.replace(",", ""))
                behind = place[begin + len(token) :]
                ends = behind.startswith(spec.between) if spec.between else not re.match(r"[\w.]|,\d", behind)
                ends = ends or each.column.startswith("memory") or behind[:1] == "%"
                forms = (each.form, each.older) if alone and each.older else (each.form,)
                if (
                    ends
                    and any(replace(each, form=form).text(plain) == token for form in forms)
                    and _same(_value(token, each), value)
                ):
                    return True
    return False


def _same(value: float, other: float) -> bool:
    return value == other or (math.isnan(value) and math.isnan(other))


@dataclass(frozen=True)
class Example:
    """A log and what was made of it."""

    written: Written
    data: bytes


def make_example(spec: Spec, seed: int) -> Example:
    """The same for the same seed: damaged and then wrapped, or wrapped and then damaged."""
    return draw_example(spec, random.Random(f"{spec.name} {seed}"), (1, 2, 5, 8, 12, 20, 130))


def draw_example(spec: Spec, draw: random.Random, sizes: Sequence[int]) -> Example:
    """An example whose log has one of these numbers of rows. All choices are made by `draw`."""
    written = write_log(spec, draw, draw.choice(sizes))
    if draw.random() < 0.7:
        return Example(written, wrap(damage(written.text, draw), draw))
    return Example(written, damage(wrap(written.text, draw), draw))


def try_example(example: Example) -> tuple[bool, list[str]]:
    """Whether it was read at all, and what is wrong with the reading."""
    reading = read(example.data)
    return reading is not None, [] if reading is None else list(judge(example.written, example.data, reading))
