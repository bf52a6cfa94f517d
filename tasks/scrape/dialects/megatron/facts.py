"""Collects what a Megatron log says once: its arguments, parameters per rank, vocabulary, memory rows and timers."""

import re
from dataclasses import dataclass, field
from typing import Any

from tasks.records import CheckpointEvent, Environment, Parameters, Source
from tasks.scrape.dialects.dialect import patterns
from tasks.scrape.dialects.megatron.columns import MemoryColumns, TimerColumns
from tasks.scrape.prefixes import iso_of
from tasks.scrape.window import Window

_NUMBER = rb"(\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)"
_DATE = rb"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)"
_MEMORY_ROW = rb"((?: \| [a-z][a-z -]{0,60}: {0,20}\d{1,15}(?:\.\d{1,20})?)+)(?: \|)?(?=\s|\Z)"
_PATTERNS = {
    # every repetition is bounded: without bounds, a long run of spaces, dots or dashes costs its length squared
    # the dashes before are asked for behind the words, which are found fast
    "table": rb" arguments (?<=-{5} arguments )-{5,80}",
    "table_end": rb" end of arguments (?<=-{5} end of arguments )-{5,80}",
    "world": rb"using world size: (\d+)",
    "parallel": rb"-parallel[ -]size: (\d{1,9})(?!\d)",  # the axis stands before it
    "vocabulary": rb"padded vocab \(size: (\d+)\) with (\d+) dummy tokens \(new size: (\d+)\)",
    # before 2021 there was no pipeline: `model parallel rank 0: 178100224`
    "rank_parameters": rb"number of parameters on (?:\(tensor, pipeline\) )?model parallel rank "
    rb"(?:\((\d{1,9}), (\d{1,9})\)|(\d{1,9}))(?:: |=) ?(\d{1,18})(?=\s)",
    "total": rb"Total number of parameters in billions: (\d+\.\d+)(?=\s)",
    "theory": rb"Theoretical memory footprints: ([^\n]{1,300})",
    "memory": rb"\[Rank (0|[1-9]\d{0,8})\] \(after (0|[1-9]\d{0,14}) iterations\) memory \((MB|GB)\)" + _MEMORY_ROW,
    # before 2021 only rank 0 prints it, and no bracket before it, in which another rank's may stand
    "memory_of_first": rb"(?<![(\w])after (0|[1-9]\d{0,14}) iterations memory \((MB|GB)\)" + _MEMORY_ROW,
    # the name and its dots stand before it
    "timer": rb"\.\.: \(%s, %s\)" % (_NUMBER, _NUMBER),
    # before 2023, and DeepSpeed: one rank's times in one line
    "times": rb"time \(ms\)((?: \| [a-z1][\w/ -]{0,80}: \d{1,15}(?:\.\d{1,9})?)+)(?: \|)?(?=\s)",
    # Megatron-Bridge prints this before each row
    "step_time": rb"Step Time ?: (\d{1,9}\.\d{2})s GPU utilization: (\d{1,9}\.\d)MODEL_TFLOP/s/GPU",
    "saving": rb"saving checkpoint at iteration {1,40}(\d{1,15}) to (\S{1,2000})(?=\s)",
    "scheduled": rb"scheduled an async checkpoint save at iteration {1,40}(\d{1,15}) to (\S{1,2000})(?=\s)",
    "saved": rb"successfully saved checkpoint (?:from|at) iteration {1,40}(\d{1,15}) to (\S{1,2000})(?=\s)",
    "loaded": rb"successfully loaded checkpoint from (\S{1,2000})(?: \[[^\]\n]{0,80}\])? {1,40}at iteration "
    rb"(\d{1,15})(?!\d)",
    "not_found": rb"could not find the metadata file (\S{1,2000})(?=\s)",
    "finished": rb"(?=exiting program (?:at|after) [^\n]{1,80})|(?=\[after training is done\] datetime: )",
    "date": rb"\[([a-z][^\]\n]{3,80})\] datetime: %s" % _DATE,
}
ANCHORS = patterns(
    _PATTERNS,
    rb" arguments|using world|parallel|vocab|number of|Theoretical|memory |\.\.: |time \(ms\)|Step Time|checkpoint|"
    rb"metadata file|datetime|exiting",
)
_ARGUMENT = re.compile(
    # the dots fill up to 48 characters, and are missing behind longer names
    rb"(?<=[\s\]:])([A-Za-z_][\w-]{0,200})(?: \.{1,64} |(?<=[\w-]{46}) {2})([^\n]{0,8000}?)"
    rb"(?=\r?\n|\s{1,64}[A-Za-z_][\w-]{0,200} \.{1,64} |\s{2,64}[A-Za-z_][\w-]{45,200}  \S|"
    rb"\s{0,64}-{5,80} end of arguments)"
)
_MEMORY = re.compile(rb"\| ([a-z][a-z -]*): *(\d+(?:\.\d+)?)")
_TIME = re.compile(rb"\| ([^:|\n]+): (\d+(?:\.\d+)?)")
_TIMER_NAME = re.compile(rb"[a-z][\w/-]{0,100}")
_NAME_WITHIN = 220  # bytes before the last two dots
_AXIS = re.compile(rb"(?<!-)(data|context|tensor-model|pipeline-model|expert-model)\Z")
_MESH = {"tensor-model": "tensor", "pipeline-model": "pipeline", "data": "data",
         "context": "context", "expert-model": "expert"}  # fmt: skip


@dataclass
class MegatronFacts:
    """What was found so far. Every entry of `ranks`, `timers` and `facts` knows its line and offset."""

    config: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, Source] = field(default_factory=dict)  # of config and environment, as in RunReading
    mesh: dict[str, int] = field(default_factory=dict)
    timers: TimerColumns = field(default_factory=TimerColumns)
    step_times: list[tuple[int, float, float]] = field(default_factory=list)  # offset, seconds, TFLOP/s per GPU
    parameters_of: dict[tuple[int, int], dict[str, Any]] = field(default_factory=dict)
    memory: MemoryColumns = field(default_factory=MemoryColumns)
    total: Parameters = field(default_factory=Parameters)
    started: str | None = None
    ended: str | None = None
    saves: dict[int, CheckpointEvent] = field(default_factory=dict)
    _table: int | None = None  # where the table of arguments begins, as long as its end is not there

    def take(self, name: str, match: re.Match[bytes], window: Window) -> None:
        """Note one anchor; the arguments between the begin and the end of their table once the end, or the window's, is
        there."""
        if name == "table":
            self._table = window.base + match.end()
        elif name == "table_end":
            self.settle(window, match.end())
            self._table = None
        else:
            self._note(name, match, window)

    def settle(self, window: Window, end: int | None = None) -> None:
        """Read the arguments of a table that goes on in the next window."""
        if self._table is not None:
            self._read_arguments(window, max(self._table - window.base, 0), len(window.data) if end is None else end)

    def environment(self) -> Environment:
        """The world and how it is divided; axes of size 1 are left out."""
        world = self.facts.get("world_size", {}).get("value")
        if world is None and self.config.get("world_size", "").isdigit():
            world = int(self.config["world_size"])
        mesh = {name: size for name, size in self.mesh.items() if size > 1}
        return Environment(num_devices=world, mesh=mesh or None)

    def place_of(self, rank: int) -> tuple[int, int] | None:
        """(tensor, pipeline) of a global rank where only these two divide the world; tensor runs fastest."""
        tensor, pipeline = self.mesh.get("tensor", 1), self.mesh.get("pipeline", 1)
        world = self.environment().num_devices
        return (rank % tensor, rank // tensor) if world == tensor * pipeline and rank < world else None

    def _read_arguments(self, window: Window, begin: int, end: int) -> None:
        for match in _ARGUMENT.finditer(window.data, begin, end):
            if match.start() < window.limit:
                value = match[2].decode("utf-8", "replace").strip()
                self.config.setdefault(match[1].decode(), value)
                self.sources.setdefault(f"config.{match[1].decode()}", window.source(match.start()))

    def _note(self, name: str, match: re.Match[bytes], window: Window) -> None:
        if name == "timer":  # there may be a dozen behind every row
            begin = _find_timer(window.data, match.start())
            if begin is not None:
                timer = window.data[begin : window.data.index(b" ", begin)]
                self._time(timer, float(match[1]), float(match[2]), window.source(begin))
            return
        source = window.source(match.start())
        place = {"line": source.line, "offset": source.offset}
        match name:
            case "world":
                self._fact("world_size", int(match[1]), place)
                self.sources.setdefault("num_devices", source)
            case "parallel":
                axis = _AXIS.search(window.data, max(0, match.start() - 20), match.start())
                if axis is not None:
                    self.mesh.setdefault(_MESH[axis[1].decode()], int(match[1]))
            case "vocabulary":
                self._fact("vocab_size", int(match[1]), place)
                self._fact("dummy_tokens", int(match[2]), place)
                self._fact("padded_vocab_size", int(match[3]), place)
            case "rank_parameters":
                key = (int(match[1] or match[3]), int(match[2] or 0))
                self.parameters_of.setdefault(key, {"parameters": int(match[4]), "parameters_source": place})
            case "total":
                printed = match[1].decode()
                count = round(float(printed) * 1e9) or None  # printed with three decimals: 0.000 may be any
                self.total = Parameters(count=count, printed=f"{printed} billion", source=source)
            case "theory":
                self._fact("theoretical_memory", match[1].decode("utf-8", "replace").strip(), place)
            case "memory":
                self._remember(int(match[1]), match[2], match[3], match[4], place)
            case "memory_of_first":
                self._remember(0, match[1], match[2], match[3], place)
            case "times":
                for each in _TIME.finditer(window.data, *match.span(1)):
                    self._time(each[1], float(each[2]), float(each[2]), window.source(each.start(1)))
            case "step_time":
                self.step_times.append((source.offset, float(match[1]), float(match[2])))
            case "date":
                date = iso_of(match[2])
                self.started = self.started or date
                if match[1].startswith(b"after training is done"):
                    self.ended = date
            case "saving" | "saved" | "scheduled":
                self._save(name, int(match[1]), match[2].decode("utf-8", "replace"), source)
            case "loaded":
                self._fact("restored_from", match[1].decode("utf-8", "replace"), place)
                self._fact("restored_step", int(match[2]), place)
            case "not_found":
                self._fact("checkpoint_not_found", match[1].decode("utf-8", "replace"), place)

    def _remember(self, rank: int, iterations: bytes, unit: bytes, row: bytes, place: dict[str, int]) -> None:
        values = {
            f"{_memory_name(key.decode())}_{unit.decode().lower()}": float(value) for key, value in _MEMORY.findall(row)
        }
        self.memory.add(values, rank=rank, iterations=int(iterations), **place)

    def _fact(self, key: str, value: Any, place: dict[str, int]) -> None:
        self.facts.setdefault(key, {"value": value, **place})

    def _time(self, name: bytes, low: float, high: float, source: Source) -> None:
        self.timers.add(name.decode("utf-8", "replace"), low=low, high=high, line=source.line, offset=source.offset)
        if name == b"save-checkpoint" and self.saves:
            step = list(self.saves)[-1]
            self.saves[step] = self.saves[step].model_copy(update={"blocking_s": high / 1000})

    def _save(self, name: str, step: int, path: str, source: Source) -> None:
        event = self.saves.get(step) or CheckpointEvent(step=step, path=path, line=source.line, offset=source.offset)
        if name == "saved":
            event = event.model_copy(update={"state": "committed", "committed": True, "committed_line": source.line})
        self.saves[step] = event


def _find_timer(data: bytes, dots: int) -> int | None:
    """Where the name of a timer starts, whose last dots stand at a position: `optimizer ....`."""
    first = max(0, dots - _NAME_WITHIN)
    before = data[first:dots].rstrip(b".")
    if not before.endswith(b" "):
        return None
    cut = 1 + max(before.rfind(each, 0, len(before) - 1) for each in (b" ", b"\n", b"\t", b"\r", b"]", b":"))
    return first + cut if _TIMER_NAME.fullmatch(before, cut, len(before) - 1) else None


def _memory_name(key: str) -> str:
    """`max allocated` and Megatron-Bridge's `mem-max-allocated-gigabytes` by one name."""
    words = key.strip().replace(" ", "-").split("-")
    return "_".join(word for word in words if word not in ("mem", "gigabytes"))
