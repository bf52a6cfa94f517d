"""torchtitan's dialect: `step: 12  loss:  3.24405  grad_norm:  0.8319  memory: …`."""

import math
import re
from typing import Any

import polars as pl

from tasks.records.checkpoint_proof import CheckpointEvent
from tasks.records.log_reading import Parameters
from tasks.scrape.dialects.dialect import EventCollector, LogDialect, Match, compile_patterns
from tasks.scrape.prefixes import RANK, TIME, is_glued, iso_of, time_before
from tasks.scrape.table.row_grammar import Field, Row, shape_of
from tasks.scrape.table.step_table import StepTable, gaps_between, usual_jump
from tasks.scrape.window import Window, text_of

# torchtitan/components/metrics.py, MetricsProcessor.log; early versions have no tflops, grad_norm came in 2025
# a pattern that begins with literal text is searched faster than one that begins with a look-behind
HEAD = re.compile(rb"step:(?<!validate step:)(?<!\wstep:) {1,9}\d{1,15}(?:/\d+ = [\d.]+%)?(?=  [a-z])")
# matches in every row after the head, in the rest of a folded row, and in a row that was cut after its step. A match
# elsewhere shows a row that lost text. Every alternative begins with a colon, which makes the search fast.
_BEGINS = b"|".join(
    rb"(?<=%s%s:)" % (before, key)
    for key in (b"grad_norm", b"memory", b"tps", b"tflops", b"mfu")
    for before in (rb"\n", rb"\n ", b"  ")
)
BODY = re.compile(
    rb":(?:(?<=\bloss:)\s{1,9}-?\d[\d.]{0,20}\s{1,9}(?:grad_norm|memory):|(?:(?<=\)\s\stps:)|%s)\s{1,9}\d|"
    rb"(?:(?<=- step:)|(?<=:step:)|(?<=\nstep:)) {1,9}\d{1,15} {0,2}(?:\r?\n|\[|\Z))" % _BEGINS
)
VALIDATE = rb"validate step: +\d{1,15}(?=  [a-z])"
_STEP = re.compile(rb"(?:validate )?step: ( {0,8})(\d{1,15})(?:/\d+ = [\d.]+%)?(?=  [a-z])")
# two spaces begin a field; a field that lost its end lacks the two spaces after it
_FIELD = re.compile(rb"  ([a-z][\w./]{0,59}): ( {0,8})([^\s:]{1,60})(?=  [a-z]|\s|\Z)")
_ANOTHER = re.compile(rb"step: {1,9}\d{1,15}  [a-z]")  # the head of the next row, which replaced the end of this one
_NUMBER = re.compile(
    rb"([-+]?(?:(?:[1-9]\d{0,2}(?:,\d{3})+|0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?|nan|inf))(%|s)?", re.IGNORECASE
)
_MEMORY = re.compile(rb"(?: (?=\d\.)|(?=\d\d))((?:0|[1-9]\d{0,8})\.\d\d)GiB\(((?:0|[1-9]\d{0,8})\.\d\d)%\)")
_MISSING = (b"N/A", b"--")  # texts in place of a missing number
_NAMED = {"tflops": "tflops_per_device", "tps": "tokens_per_s_per_device", "elapsed_time_per_step": "seconds",
          "step_time": "seconds"}  # fmt: skip
# loss is printed with {:8.5f} (earlier {:7.4f}), grad_norm with {:7.4f}: a single digit before the point gets a blank
_PADDED = frozenset({"loss", "grad_norm"})
_DECIMALS = {"loss": (4, 5), "grad_norm": (4,), "tflops": (2,), "mfu": (2,), "tps": (0,), "wps": (0,)}
_THOUSANDS = frozenset({"tps", "wps", "tflops"})
_KEYS = frozenset({"loss", "grad_norm", "memory", "tps", "tflops", "mfu", "elapsed_time_per_step", "step_time", "wps"})
KNOWN = frozenset(_NAMED.get(key, key) for key in _KEYS) | {"memory_gib", "memory_pct"}
UNFINISHED = frozenset({"loss", "grad_norm", "tokens_per_s_per_device", "wps", "tflops_per_device"})


def parse(line: bytes, position: int, like: Row | None, is_end: bool) -> Row | None:
    """Return the row at a position (see `RowGrammar.parse`); None if the row is damaged or may be cut."""
    head = _STEP.match(line, position)
    if head is None or (len(head[2]) < 2 and not head[1] and line.startswith(b"step", position)):
        return None
    step = shape_of(head[2], len(head[1]) + len(head[2]))
    fields, end = [Field("step", int(head[2]), head.start(2), head.end(2), step, "step")], head.end()
    keys: set[str] = {"step"}
    while (found := _FIELD.match(line, end)) and (key := text_of(found[1])) not in keys:
        read = [] if found[3] in _MISSING else _read(key, found)
        if read is None:
            return None
        keys.add(key)
        fields += read
        end = found.end()
    sure = line.endswith((b"%", b"s", b")", *_MISSING), 0, end)  # the last field is visibly complete
    row = Row(int(head[2]), tuple(fields), position, end, certain=sure)
    if (
        _ANOTHER.search(line, head.end(), end)
        or "loss" not in keys
        or line[end:].strip()
        or (line.startswith(b"step", position) and row.ends_early(like))
    ):
        return None
    if is_end and end == len(line) and not sure:  # the last number must have as many decimals as in `like`
        last = fields[-1]
        if like is None or not any(one.key == last.key and one.shape == last.shape for one in like.fields):
            return None
    return row


def _read(key: str, found: re.Match[bytes]) -> list[Field] | None:
    """Return a match of `_FIELD` as one field, or as two (`3.20GiB(4.35%)`); None if a number is damaged."""
    text, at = found[3], found.start(3)
    if key == "memory":
        memory, at = _MEMORY.fullmatch(found[2] + text), found.start(2)
        return memory and [
            Field(name, float(memory[group]), at + memory.start(group), at + memory.end(group), (kind, 2), key)
            for group, name, kind in ((1, "memory_gib", "padded"), (2, "memory_pct", "fixed"))
        ]
    number = _NUMBER.fullmatch(text)
    if number is None or (key in _DECIMALS and number[2] not in (None, b"%" if key == "mfu" else None)):
        return None
    digits, width = number[1].replace(b",", b""), len(found[2]) + len(number[1])
    value, shape = float(digits), shape_of(digits)
    kind, decimals = shape
    if kind != "open" and math.isinf(value):  # a damaged exponent
        return None
    if kind != "open" and key in _DECIMALS:
        lacks_comma = key in _THOUSANDS and value >= 1000 and b"," not in number[1]
        is_padded = width == max(decimals + 3 if key in _PADDED else 0, len(number[1]))
        if kind == "exponent" or decimals not in _DECIMALS[key] or lacks_comma or not is_padded:
            return None
        shape = ("thousands" if key in _THOUSANDS else "padded" if key in _PADDED else "fixed"), decimals
    elif kind == "whole" and b"," not in number[1]:
        shape = shape_of(digits, width)
    elif kind != "open":
        shape = "free", 0
    return [Field(_NAMED.get(key, key), value, at, at + len(number[1]), shape, key)]


PATTERNS = compile_patterns(
    {
        "validate": VALIDATE,
        "parameters": rb"Model [^\n]{1,120}?size: ([\d,]+) total parameters",
        "capacity": rb"(?:CUDA|GPU|XPU|HPU|NPU|ROCM|\b\w{1,20}) capacity: ([^\n]{1,120}?) with [\d.]+GiB memory",
        "mesh": rb"Building \d+-D device mesh with \[([^\]\n]{0,500})\], \[([\d, ]{0,200})\]",
        "saving": rb"Saving (?:a|the) (?:[\w ]+ )?checkpoint\b(?:[^\n]{0,80}?step (\d+))?",
        "saved": rb"Finished saving the checkpoint(?: \(or staging if async is enabled\))? ?in (\d+\.\d+) seconds",
        # the last save is never asynchronous, so the line proves the commit
        "saved_last": rb"Last step checkpoint completed in (\d+\.\d+)s",
        "loading": rb"Loading the checkpoint (?:from|at step) ([^\s]+?)\.?(?=\s)",
        "finished": rb"Training completed\b",
    },
)
_DATE = re.compile(rb"(?:\[titan\] |(?m:^)|:)(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:,\d{3})?) - ")


class TorchtitanEventCollector(EventCollector):
    """Collects torchtitan's checkpoints, evaluations, parameters and environment."""

    def take(self, name: str, match: Match, window: Window, table: StepTable) -> None:
        super().take(name, match, window, table)
        source = window.source(match.start())
        match name:
            case "validate":
                self._validate(match, window, table)
            case "parameters":
                text = match[1].decode()
                self.parameters = Parameters(count=int(text.replace(",", "")), printed=text, source=source)
            case "capacity":
                self.environment = self.environment.replace(device_kind=text_of(match[1]))
            case "mesh":
                names = re.findall(r"\w+", text_of(match[1]))
                sizes = [int(size) for size in re.findall(rb"\d+", match[2])]
                mesh = {axis: size for axis, size in zip(names, sizes, strict=False) if size > 1}
                self.environment = self.environment.replace(mesh=mesh or None)
            case "saving":
                step = int(match[1]) if match[1] else table.step_before(source.offset) or 0
                if not self.checkpoints or self.checkpoints[-1].step != step:  # the last step has two such lines
                    self.checkpoints.append(CheckpointEvent(step=step, **window.place(match.start())))
            case "saved" if self.checkpoints:
                # asynchronous saves print this line after staging, so it does not prove the commit
                self._update_last(blocking_s=float(match[1]))
            case "saved_last" if self.checkpoints:
                self._update_last(
                    blocking_s=float(match[1]), state="committed", committed=True, committed_line=source.line
                )
            case "loading":
                self.note_fact("restored_from", text_of(match[1]), source)

    def _update_last(self, **update: Any) -> None:
        self.checkpoints[-1] = self.checkpoints[-1].replace(**update)

    def _validate(self, match: Match, window: Window, table: StepTable) -> None:
        stop = window.data.find(b"\n", match.start()) + 1 or len(window.data)
        line = window.data[match.start() : stop]
        row = parse(line, 0, None, window.last and stop == len(window.data))
        if row is None:
            self.refuse(match, window)
            return
        values = {one.column: one.value for one in row.fields}
        self.evals.append({**values, "time": time_before(window, match.start()), **window.place(match.start())})

    def end_window(self, window: Window, table: StepTable) -> None:
        """Finish a window; also read the log's first date."""
        super().end_window(window, table)
        if self.started is None and (date := _DATE.search(window.data, window.start)):
            self.started = iso_of(date[1])

    def reading_fields(self, steps: pl.DataFrame, table: StepTable) -> dict[str, Any]:
        found = super().reading_fields(steps, table)
        chosen, ranks = _choose_rank(found["steps"])
        gaps = _gaps(chosen["step"].to_list(), set(steps["step"].to_list()))
        return {**found, "steps": chosen, "ranks": ranks, "gaps": gaps, "stalls": self.stalls(chosen)}


def _choose_rank(steps: pl.DataFrame) -> tuple[pl.DataFrame, tuple[dict[str, Any], ...]]:
    """Return the rows of the rank with the most rows, and a summary of each rank.

    A rank that prints only the loss −1, as pipeline stages without a loss do, is chosen last. Rows without a rank count
    as the rows of one more rank, which has no summary. Of consecutive rows with the same step and no rank, only the
    first counts. If another rank is chosen, the rows without a rank fill its gaps.
    """
    if "_rank" not in steps.columns or steps.is_empty():
        return steps.drop("_rank", strict=False), ()
    none, copy = pl.col("_rank").is_null(), pl.col("step") == pl.col("step").shift()
    nameless = steps.filter(none).filter(~copy.fill_null(value=False))
    named = steps.filter(~none)
    summary = pl.concat([nameless, named]).group_by("_rank", maintain_order=True).agg(
        rows=pl.len().cast(pl.Int64), last_step=pl.col("step").last(), blind=(pl.col("loss") == -1).all()
    )  # fmt: skip
    best = summary.sort("blind", -pl.col("rows"), pl.col("_rank").is_null(), maintain_order=True)["_rank"][0]
    chosen = nameless if best is None else named.filter(pl.col("_rank") == best)
    if best is not None:
        chosen = pl.concat([chosen, nameless.join(chosen, on="step", how="anti")]).sort("offset")
    by_rank = steps.select("_rank").unique(maintain_order=True).join(summary, on="_rank").drop_nulls("_rank")
    return chosen.drop("_rank"), tuple(by_rank.select(pl.col("_rank").alias("rank"), "rows", "last_step").to_dicts())


def _gaps(numbers: list[int], every_rank: set[int]) -> tuple[tuple[int, int], ...]:
    """Return the (first, last) missing step of each gap; a missing step that another rank prints is a gap too."""
    rest = numbers[1:] if numbers[:1] == [1] else numbers  # torchtitan prints step 1, then every log_freq-th step
    gaps, every = list(gaps_between(rest)), usual_jump(rest)
    if len(rest) < len(numbers) and every and rest[0] > max(every, 2):
        gaps.append((max(every, 2), rest[0] - every))
    others = every_rank.difference(numbers)
    gaps += [(step, step) for step in others if not any(first <= step <= last for first, last in gaps)]
    return tuple(sorted(gaps))


DIALECT = LogDialect(
    name="torchtitan",
    row=b"  loss: ",
    head=HEAD, parse=parse, patterns=PATTERNS, collector=TorchtitanEventCollector, time=TIME, known=KNOWN,
    keys=_KEYS | {"step"}, unfinished=UNFINISHED, body=BODY, evaluation=re.compile(VALIDATE), rank=RANK, glued=is_glued,
    run_starts=(b"Starting job: ", b"Training starts at step"),
)  # fmt: skip
