"""MLPerf's dialect: lines `:::MLLOG {JSON}` of its logging library, printed by NeMo, MaxText and many other trainers.

A row is a line with the loss or the seconds of a step. A log without such lines has the blocks between two evaluations
as its rows. Steps are those that the log numbers; where it counts samples only, samples ÷ `global_batch_size`.
"""

import json
import re
from datetime import UTC, datetime
from typing import Any, NamedTuple

import polars as pl

from tasks.records.log_reading import STEP_SCHEMA
from tasks.records.shared_fields import Source
from tasks.scrape.dialects.dialect import EventCollector, LogDialect, Match, compile_patterns
from tasks.scrape.prefixes import TIME
from tasks.scrape.table.row_grammar import Field, Row
from tasks.scrape.table.step_table import StepTable, arrange_columns
from tasks.scrape.window import Window, text_of

MARK = b":::MLLOG "
# a line with `tracked_stats` is a row if it has a loss, or the seconds of a numbered step
_ROW = rb':::MLLOG (?=\{[^\n]{0,300}"key": "(?:train_loss"|tracked_stats", "value": \{[^}\n]{0,500}"(?:%s)": ))'
HEAD = re.compile(_ROW % rb"train_loss|reduced_train_loss|loss|train_step_time(?=[^\n]*\"step\":)")
_LOSSES = ("train_loss", "reduced_train_loss", "loss")
_NAMED = {**dict.fromkeys(_LOSSES, "loss"), "train_step_time": "seconds"}
# the score of these benchmarks is an accuracy; the score of all others, language models and diffusion, is a loss
ACCURACIES = frozenset({
    "bert", "dlrm", "dlrm_dcnv2", "gnn", "rgat", "maskrcnn", "minigo", "resnet", "retinanet", "rnnt", "ssd", "unet3d",
})  # fmt: skip
# keys of one value that are settings of the run
SETTINGS = frozenset({
    "seed", "global_batch_size", "gradient_accumulation_steps", "max_sequence_length", "max_steps", "target_accuracy",
    "train_samples", "eval_samples", "init_checkpoint_step", "lora_rank", "lora_alpha", "submission_benchmark",
})  # fmt: skip
PATTERNS = compile_patterns(
    {
        "mllog": rb":::MLLOG (?=\{)",
        "system": rb":::SYSJSON (?=\{)",
        # `:::DLPAL image job nodes list …`, printed by the launcher of NVIDIA's submissions; not its echo by `set -x`
        "nodes": rb"(?m:^):::DLPAL \S{1,500} \S{1,80} (\d{1,6}) (\S{1,500}) ",
    }
)
_DECODER = json.JSONDecoder()


class Block(NamedTuple):
    """The steps between two evaluations."""

    began_ms: int
    ended_ms: int
    began: float | None  # samples, or steps if `numbered`; None if the log does not count them
    ended: float | None
    numbered: bool  # the log numbers the steps
    source: Source


def read_event(data: bytes, position: int) -> dict[str, Any] | None:
    """Return the JSON object of the line at a position; None if it is damaged or cut."""
    stop = data.find(b"\n", position)
    try:
        found, _ = _DECODER.raw_decode(text_of(data[position : stop if stop >= 0 else len(data)]))
    except ValueError:
        return None
    known = isinstance(found, dict) and isinstance(found.get("key"), str) and isinstance(found.get("metadata"), dict)
    return found if known and _number(found.get("time_ms")) is not None else None


def parse(line: bytes, position: int, like: Row | None, is_end: bool) -> Row | None:
    """Return the row at a position; None if its JSON is damaged or has no step. A number in JSON is always complete."""
    event = read_event(line, position + len(MARK))
    if event is None:
        return None
    value, metadata = event.get("value"), event["metadata"]
    values = value if isinstance(value, dict) else {"train_loss": value}
    numbers = {_NAMED.get(key, key): _number(one) for key, one in values.items()}
    if None in numbers.values() or not {"loss", "seconds"} & set(numbers):
        return None
    step, samples = _number(metadata.get("step")), _samples(metadata)
    if step is None and samples is None:
        return None
    also = {"lr": _number(metadata.get("lr")), "samples": samples, "time_ms": event["time_ms"]}
    columns = {"step": int(samples or 0) if step is None else int(step), "in_samples": int(step is None)}
    columns |= {key: number for key, number in {**numbers, **also}.items() if number is not None}
    end = line.find(b"}", position) + 1
    stop = line.rfind(b"}", position) + 1
    # the kind "word" keeps these rows with this parser: a number's place in the JSON is not fixed
    fields = tuple(Field(key, number, position, end, ("word", 0), key) for key, number in columns.items())
    return Row(columns["step"], fields, position, stop)


def _number(value: Any) -> float | int | None:
    """Return a number of the JSON; texts of numbers that are not finite count, as Python writes NaN."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _samples(metadata: dict[str, Any]) -> float | int | None:
    """Return the number of samples trained; MaxText and others name it an epoch."""
    counts = (_number(metadata.get(key)) for key in ("samples_count", "epoch_num"))
    return next((count for count in counts if count is not None), None)


class MllogEventCollector(EventCollector):
    """Collects MLPerf's events: settings, environment, blocks, evaluations, and how the run ended."""

    def __init__(self) -> None:
        super().__init__()
        self.config: dict[str, str] = {}
        self.sources: dict[str, Source] = {}
        self.blocks: list[Block] = []
        self.last_ms: int | None = None
        self._system: dict[str, Any] = {}
        self._place: str | None = None
        self._nodes: int | None = None
        self._block: tuple[int, dict[str, Any]] | None = None  # time and metadata of a block that has begun
        self._starts: list[tuple[int, dict[str, Any]]] = []  # those of all blocks

    def take(self, name: str, match: Match, window: Window, table: StepTable) -> None:
        """Collect a match of the pattern `name`."""
        super().take(name, match, window, table)
        match name:
            case "mllog":
                event = read_event(window.data, match.end())
                if event is None:
                    self.refuse(match, window)
                else:
                    self._take_event(event, match, window)
            case "system":
                stop = window.data.find(b"\n", match.end())
                try:
                    self._system = _DECODER.raw_decode(text_of(window.data[match.end() : stop]))[0]
                except ValueError:
                    self._system = {}
            case "nodes":
                self._nodes, self._place = int(match[1]), f"nodes {text_of(match[2])}"

    def _take_event(self, event: dict[str, Any], match: Match, window: Window) -> None:
        key, value, metadata = event["key"], event.get("value"), event["metadata"]
        source, time = window.source(match.start()), int(event["time_ms"])
        if time > 0:  # some submitters add lines with the time 0
            self.started = self.started or _iso(time)
            self.last_ms = max(time, self.last_ms or 0)
        if key in SETTINGS or key.startswith("opt_"):
            self.config.setdefault(key, _text(value))
            self.sources.setdefault(f"config.{key}", source)
        elif key.startswith("submission_"):
            self.note_fact(key, value, source)
        match key:
            case "run_start" | "block_start" | "eval_start":
                self.death.forget(source.offset)  # an exception before it did not end the run
                if key == "block_start":
                    self._block = time, metadata
                    self._starts.append(self._block)
            case "block_stop" if self._block is not None:
                self.blocks.append(_block(*self._block, time, metadata, source))
                self._block = None
            case "eval_accuracy" | "eval_loss" if _number(value) is not None:
                self.death.forget(source.offset)
                samples = _samples(metadata)
                self.evals.append(
                    {"step": _number(metadata.get("step")), "samples": samples, "score": value, "time": _iso(time)}
                    | source.model_dump()
                )
            case "run_stop":
                self.note_fact("status", metadata.get("status"), source)
                self.finished_at = self.finished_at or source.offset

    def reading_fields(self, steps: pl.DataFrame, table: StepTable) -> dict[str, Any]:
        """Return the fields of the `RunReading`. Steps without seconds get them from the times of their lines."""
        batch = self._batch()
        steps = _number_steps(steps, batch) if steps.height else self._rows_of_blocks(batch)
        if "time_ms" in steps.columns:
            last = int(steps["time_ms"].max())  # type: ignore[arg-type]
            self.last_ms = max(last, self.last_ms or last)
            steps = self._add_seconds(steps, batch)
            stamps = [_iso(int(time)) for time in steps["time_ms"]]
            steps = arrange_columns(steps.drop("time_ms").with_columns(time=pl.Series(stamps, dtype=pl.String)))
        self.evals = [self._finish_evaluation(one, batch) for one in self.evals]
        self._describe_machine()
        found = super().reading_fields(steps, table)
        return {
            **found,
            "config": self.config, "sources": self.sources,
            "ended": None if self.last_ms is None else _iso(self.last_ms),
            "blocks": 0 if table.parsed else steps.height,
        }  # fmt: skip

    def _batch(self) -> int | None:
        text = self.config.get("global_batch_size", "")
        return int(text) if text.isdigit() and int(text) else None

    def _rows_of_blocks(self, batch: int | None) -> pl.DataFrame:
        """Return a row per block: its last step, and the mean seconds of its steps, or of the block if uncounted."""
        rows = []
        for number, block in enumerate(self.blocks, 1):
            unit = 1 if block.numbered else batch
            counted = unit and block.ended is not None and block.began is not None and block.ended > block.began
            steps = (block.ended - block.began) / unit if counted else 1.0  # type: ignore[operator]
            place = block.source.model_dump() | {"time": _iso(block.ended_ms)}
            step = int(block.ended / unit) if counted else number  # type: ignore[operator]
            rows.append({"step": step, "seconds": (block.ended_ms - block.began_ms) / 1000 / steps, **place})
        return (
            arrange_columns(pl.DataFrame(rows, infer_schema_length=None)) if rows else pl.DataFrame(schema=STEP_SCHEMA)
        )

    def _add_seconds(self, steps: pl.DataFrame, batch: int | None) -> pl.DataFrame:
        """Return the rows; if none has seconds, each gets the mean of its steps since the row or block before it."""
        if steps["seconds"].count():
            return steps
        starts = [(time, _first_step(metadata, batch)) for time, metadata in self._starts]
        seconds: list[float | None] = []
        before: tuple[int, float] | None = None
        for step, time in steps.select("step", "time_ms").iter_rows():
            begun = [(when, first) for when, first in starts if first is not None and when <= time and first < step]
            last = max([*begun, *([before] if before else [])], default=None)
            seconds.append((time - last[0]) / 1000 / (step - last[1]) if last and step > last[1] else None)
            before = time, step
        return steps.with_columns(seconds=pl.Series(seconds, dtype=pl.Float64))

    def _finish_evaluation(self, one: dict[str, Any], batch: int | None) -> dict[str, Any]:
        """Return the evaluation with its step, and its score under the name of what it is."""
        benchmark = str(self.config.get("submission_benchmark", ""))
        score, step, samples = one.pop("score"), one["step"], one["samples"]
        if step is None and samples is not None:
            step = int(samples / batch) if batch else int(samples)
        return one | {"step": step, "accuracy" if benchmark in ACCURACIES else "loss": score}

    def _describe_machine(self) -> None:
        """Set device, number of devices, and place: the nodes, or the system that the log names."""
        each, platform = self._system.get("accelerators_per_node"), self.facts.get("submission_platform", {})
        device = self._system.get("accelerator_model_name") or platform.get("value")
        organisation = self.facts.get("submission_org", {}).get("value")
        count = self._nodes * int(str(each)) if self._nodes and str(each).isdigit() else None
        named = f"{organisation or ''} {platform['value']}".strip() if platform.get("value") else None
        self.environment = self.environment.replace(device_kind=device, num_devices=count, place=self._place or named)


def _number_steps(steps: pl.DataFrame, batch: int | None) -> pl.DataFrame:
    """Return the rows; numbers that count samples become numbers of steps, if the batch is known."""
    number = pl.col("step")
    if batch:
        number = pl.when(pl.col("in_samples") == 1).then(number // batch).otherwise(number)
    return steps.with_columns(number.alias("step")).drop("in_samples")


def _block(began_ms: int, began: dict[str, Any], ended_ms: int, ended: dict[str, Any], source: Source) -> Block:
    """Return a block from the metadata of its start and stop."""
    steps = _number(began.get("step")), _number(ended.get("step"))
    if None not in steps:
        return Block(began_ms, ended_ms, *steps, numbered=True, source=source)
    first = _first_sample(began)
    last = _samples(ended)
    if last is None and first is not None:  # MaxText: the block's length stands in its start
        length = next((n for key in ("epoch_count", "samples_count") if (n := _number(began.get(key)))), None)
        last = first + length if length else None
    return Block(began_ms, ended_ms, first, last, numbered=False, source=source)


def _first_step(began: dict[str, Any], batch: int | None) -> float | None:
    """Return the step at which a block begins, from the metadata of its start; None if unknown."""
    step, samples = _number(began.get("step")), _first_sample(began)
    return step if step is not None or samples is None or not batch else samples / batch


def _first_sample(began: dict[str, Any]) -> float | int | None:
    """Return the number of samples before a block; MaxText counts them as epochs."""
    counts = (_number(began.get(key)) for key in ("first_epoch_num", "samples_count"))
    return next((count for count in counts if count is not None), None)


def _text(value: Any) -> str:
    """Return a setting's text; 1.0 and 1 are one setting."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _iso(time_ms: int) -> str:
    """Return milliseconds since 1970 as ISO 8601 in UTC."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")


DIALECT = LogDialect(
    name="mllog",
    row=b":::MLLOG ",
    head=HEAD,
    parse=parse,
    patterns=PATTERNS,
    collector=MllogEventCollector,
    time=TIME,
    known=frozenset({"step", "in_samples", "loss", "seconds", "lr", "samples", "time_ms"}),
    keys=frozenset({"step", "lr", *_NAMED}),
    late=frozenset({"lr", "seconds", "samples", "loss"}),
)
