"""Judges the reading of a damaged log against the written log.

A number is right if it was written in the row of its step. These other readings are accepted, because the text alone
cannot reveal the damage:

- a number that stands under its key in the text exactly as the trainer prints it: one changed digit, or one digit lost
or doubled where the number keeps its decimals and its padding. For Megatron's numbers with an exponent, which have one
digit before the point and a fixed count behind it, only a changed digit, also in the exponent: 5.1E-04 for 5.1E-07 is a
printable number. For a padded or grouped number only a changed digit, and with `.3f` only one before the point. Another
line may follow at once: the line break is not part of a number;
- if no row of another step has a finite number in its column, as in a log of one row: a number in the format of an
earlier version of the trainer, and the properties that only other rows could show: the width of the step's column and
of a whole number's (FlagScale pads its counts of iterations to four places, not three), and the decimals before an
exponent (three and six are Megatron's own);
- a number of a row whose own step number was damaged in this way;
- a row that is not reported as missing, if the reading has several runs or a step that was never written: an export
with damaged labels is split into runs, and one of them has the row under the step in its own text;
- a row that is not reported as missing, if all of its numbers were read: the text between the head of one row and the
fields of another is lost, and the remains form one valid row;
- more or fewer blanks between a key of the config and its value: they are not part of the value; tabs where the trainer
prints blanks: they change no digit;
- a number that damage inside its line turned into another number in the trainer's format.

Values that the reading attributes to other lines must be in the text (`_not_said`).
"""

import json
import math
import re
from collections.abc import Iterator, Set
from dataclasses import replace
from functools import partial

import polars as pl

from tasks.publish.page.log_lines import lines_of
from tasks.publish.terminal.scrape_output import json_text
from tasks.records.log_reading import LogReading, RunReading
from tasks.scrape.read_log import scrape_text
from tasks.scrape.window import LogFormatError, slices
from tasks.scrape.wrappings import unwrap
from tests.fuzzing.specs import Numbers, Spec, Written, token_of, value_of

_GOES_ON = re.compile(r"[\d_.]|,\d|e[-+]?\d", re.IGNORECASE)  # the text behind a number with decimals


def read(data: bytes) -> LogReading | None:
    """The reading; None if it was refused in the documented way."""
    try:
        return scrape_text(data, name="fuzz")
    except LogFormatError:
        return None


def texts_in(data: bytes) -> list[bytes]:
    """The content of the wrappings, one text per source."""
    with unwrap(partial(slices, data, 0, len(data)), "fuzz") as found:
        return [b"".join(chunks()) for chunks in found.logs.values()]


def judge(written: Written, data: bytes, reading: LogReading) -> Iterator[str]:
    """The problems of a reading of damaged and wrapped data."""
    json.loads("".join(json_text(reading)))
    # a page's logs are read without unwrapping: a colour code there is damage
    texts = texts_in(data) if reading.page is None else [data]
    if len(texts) != len(reading.runs):
        texts = [b"\n".join(texts)] * len(reading.runs)
    for text, run in zip(texts, reading.runs, strict=True):
        yield from _judge_run(written, text, run)
    steps = {int(step) for run in reading.runs for step in run.steps["step"]}
    reported = any(map(_tells, reading.runs)) or len(reading.runs) > 1
    reported = reported or bool(steps - {step for step, _, _ in written.rows})  # one of its numbers under another key
    read_rows = [row for run in reading.runs for row in run.steps.iter_rows(named=True)]
    for step, numbers, printed in written.rows:
        rest = printed[len(printed) // 4 :][:100].encode()
        if any(all(key == "step" or _same(row.get(key), value) for key, value in numbers.items()) for row in read_rows):
            continue  # under the number before it
        if step not in steps and (rest in b"\n".join(texts) or rest in data) and not reported:
            yield f"row {step} is in the text, was not read, and the coverage says nothing"


def _tells(run: RunReading) -> bool:
    """Whether the coverage reports something missing."""
    coverage = run.coverage
    reported = not coverage.complete or coverage.truncated or coverage.step_lines_seen > coverage.step_lines_parsed
    return reported or any((coverage.gaps, coverage.unread, coverage.unknown_keys, coverage.rewinds))


def _judge_run(written: Written, text: bytes, run: RunReading) -> Iterator[str]:
    coverage = run.coverage
    # equal rows count once: many ranks print one, and damage may double a stretch, more than once
    once = run.format in ("torchtitan", "megatron") and run.steps.height <= coverage.step_lines_parsed
    exact = run.steps.height == coverage.step_lines_parsed
    if not (exact or once) or coverage.step_lines_parsed > coverage.step_lines_seen:
        yield f"{run.steps.height} rows, {coverage.step_lines_parsed} parsed of {coverage.step_lines_seen} seen"
    offsets = [offset for offset, _ in lines_of(text, 0)]
    if offsets != sorted(set(offsets)):
        yield "the lines for display overlap"
    yield from _not_said(text, run)
    # a key with the name of one of the table's own columns, such as `line`, gets another name
    unknown = {name for key in coverage.unknown_keys for name in (key, f"{key} (log)")}
    columns = run.steps.select(pl.selectors.numeric())
    lone = {one.name for one in columns if run.steps.filter(one.is_finite())["step"].n_unique() == 1}
    for row in run.steps.iter_rows(named=True):
        numbers = {key: float(value) for key, value in row.items() if isinstance(value, int | float)}
        offset = int(numbers.pop("offset"))
        numbers.pop("line")
        # a damaged key is reported as unknown
        numbers = {key: value for key, value in numbers.items() if key not in unknown}
        if not _was_written(written, numbers, lone, text[offset : offset + 1500].decode("utf-8", "replace")):
            yield f"at {offset} of {text[offset : offset + 300]!r}: {numbers} was not written"


def _not_said(text: bytes, run: RunReading) -> Iterator[str]:
    """The values that a reading attributes to lines other than rows and that are not in the text."""
    for event in run.schedule:
        said = f"rank {event['rank']} {event['direction']} {event['event']} tensor {event['tensor']}"
        if not re.match(rb"%s(?!\d)" % said.encode(), text[event["offset"] :]):
            yield f"{said} does not stand at {event['offset']}"
    for memory in run.rank_memory.iter_rows(named=True):
        place = text[memory["offset"] : memory["offset"] + 400].split(b"\n")[0].decode("utf-8", "replace")
        numbers = {float(found) for found in re.findall(r": *(\d+(?:\.\d+)?)", place)}
        values = [value for key, value in memory.items() if value is not None and key.endswith(("_mb", "_gb"))]
        begin = f"[Rank {memory['rank']}] (after {memory['iterations']} "
        if not numbers.issuperset(values) or not place.startswith(begin):
            yield f"{memory} does not stand in {place!r}"
    for timer in run.timers.iter_rows(named=True):
        place = text[timer["offset"] : timer["offset"] + 400].decode("utf-8", "replace")
        printed = re.match(r"([a-z][\w/-]*) \.+: \(([^\s(),]+), ([^\s(),]+)\)", place)
        if not printed or (printed[1], float(printed[2]), float(printed[3])) != (
            timer["timer"], timer["min_ms"], timer["max_ms"],
        ):  # fmt: skip
            yield f"{timer} does not stand in {place[:100]!r}"
    said_once = [f"Config param {key}: {value}" for key, value in run.config.items()]
    if run.format == "maxtext" and run.parameters.printed:
        said_once.append(f"number parameters: {run.parameters.printed}")
    for device in run.memory.devices:
        numbers_of = re.match(rb"Using \(GB\) ([\d.]+) / ([\d.]+) \(([\d.]+)%", text[device.offset :])
        if not numbers_of or [float(each) for each in numbers_of.groups()] != [
            device.used_gb,
            device.limit_gb,
            device.percent,
        ]:
            yield f"{device} does not stand at {device.offset}"
    for said in said_once:
        key, value = said.strip().split(":", 1)
        form = rb"%s:(?:[ \t\r\v\f]|\xc2\xa0)*%s" % (re.escape(key.encode()), re.escape(value.strip().encode()))
        if run.format == "maxtext" and not re.search(form, text) and "\ufffd" not in said:
            yield f"{said!r} stands nowhere"


def _was_written(written: Written, numbers: Numbers, lone: Set[str], place: str) -> bool:
    """Whether each number was written in the row of this step, or stands whole under its key in the text. `lone`: the
    columns with numbers of one step only.
    """
    head = written.spec.head_column
    for printed in [printed for step, printed, _ in written.rows if step == numbers["step"]] or [{}]:
        wrong = [key for key, value in numbers.items() if not (key in printed and _same(value, printed[key]))]
        if all(key == head or _stands(written.spec, place, key, numbers[key], key in lone) for key in wrong):
            return head not in wrong or _is_step(written.spec, place, numbers[head], head in lone)
    return False


def _is_step(spec: Spec, place: str, step: float, alone: bool) -> bool:
    head = re.match(rf"{re.escape(spec.head)}( *\d+){re.escape(spec.after_step.split('s')[0])}", place)
    return bool(head and _is_printed(format(int(step), spec.step_form), head[1], alone))


def _stands(spec: Spec, place: str, column: str, value: float, alone: bool) -> bool:
    """Whether a column's key and number are in the text in the trainer's present or an earlier format."""
    place = place.replace("\t", " ")
    for each in spec.fields:
        if each.column == column:
            literal = each.literal or spec.after_step
            for begin in (match.end() for match in re.finditer(re.escape(literal), place)):
                token = token_of(place[begin:])
                if token is None:
                    continue
                plain = float(token.replace(",", ""))
                behind = place[begin + len(token) :]
                ends = behind.startswith(spec.between) if spec.between else not _GOES_ON.match(behind)
                ends = ends or each.column.startswith("memory")
                forms = (each.form, each.older) if alone and each.older else (each.form,)
                texts = {replace(each, form=form).text(plain) for form in forms}
                if each.form == ".4" and plain.is_integer():  # NeMo prints 13 for 13, and 13.0 for a rounded value
                    texts.add(str(int(plain)))
                if (
                    ends
                    and any(_is_printed(text, token, alone) for text in texts)
                    and _same(value_of(token, each), value)
                ):
                    return True
    return False


def _is_printed(printed: str, token: str, alone: bool) -> bool:
    """Whether the trainer prints a number like this, in letters of either case (a damaged `-inf` can be `-INF`, the
    same number) or with further zeros behind its decimals; `alone`: also with differences that only rows of other steps
    would show.
    """
    loose = token.strip().isdigit() or re.fullmatch(r" *[-+]?\d\.\d+E[-+]\d\d", token)
    is_same = _without_zeros(printed) == _without_zeros(token)
    return is_same or bool(alone and loose and float(printed.replace(",", "")) == float(token))


def _without_zeros(text: str) -> str:
    """A number's text in small letters, without zeros at the end of its decimals."""
    return re.sub(r"(\.\d*?)0+$", r"\1", text.casefold())


def _same(value: object, other: float) -> bool:
    return value == other or (isinstance(value, float) and math.isnan(value) and math.isnan(other))
