"""Turns the anchors of a log into what it says once: environment, memory, parameters, FLOPs, config, its frame."""

import math
import re
from dataclasses import dataclass, field
from datetime import datetime

from tasks.records import DeviceMemory, Environment, Flops, Memory, ParameterArray, Parameters, Source
from tasks.scrape.prefixes import parse_date, prefix_of_text
from tasks.scrape.window import Window

_SCALE = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_PATH = re.compile(rb"(\S+)\s+\Z")
_WORDS = re.compile(r"[\w.-]+")
# anchor -> what it tells, named as in the records
PLACED = {"jax": "jax", "jaxlib": "jaxlib", "libtpu": "libtpu", "backend": "backend", "device_kind": "device_kind",
          "devices": "num_devices", "process": "process_index", "flops": "flops", "start": "started"}  # fmt: skip
# messages that are MaxText's own, not those of a library, which may be of another version
OWN = frozenset({"jax", "devices", "memory", "device_memory", "parameters", "array", "config", "save_announced",
                 "eval_start", "eval"})  # fmt: skip
_SIZES = re.compile(r"'(\w+)': (\d+)")


PERCENT_SLACK = 1.0  # what the second decimal of used and limit can do to a hundred times their quotient, and as much


@dataclass
class Facts:
    """What was read so far; of what a log says twice (a restart), the first is kept, of its end the last."""

    start: datetime | None = None
    end: datetime | None = None
    exit_code: int | None = None
    exit_offset: int = 0
    starts: list[int] = field(default_factory=list)  # where processes of the run say what they run on
    profiling: list[int] = field(default_factory=list)  # where the profiler says that it starts or writes
    config: dict[str, str] = field(default_factory=dict)
    sources: dict[str, Source] = field(default_factory=dict)  # where each of these was read first, by name
    printers: dict[str, str] = field(default_factory=dict)  # the source line that printed each of OWN first
    _jax: str | None = None
    _jaxlib: str | None = None
    _libtpu: str | None = None
    _backend: str | None = None
    _device_kind: str | None = None
    _devices: int | None = None
    _shape: str = ""
    _axes: dict[str, int] = field(default_factory=dict)
    _process: int | None = None
    _memory: Memory = field(default_factory=Memory)
    _device_memory: dict[str, DeviceMemory] = field(default_factory=dict)
    _no_memory: str | None = None
    _parameters: Parameters = field(default_factory=Parameters)
    _arrays: dict[str, ParameterArray] = field(default_factory=dict)
    _flops: Flops = field(default_factory=Flops)

    def take(self, name: str, match: re.Match[bytes], window: Window) -> None:
        """Note one anchor; anchors that are no facts are ignored."""
        texts = [None if text is None else text.decode("utf-8", "replace").strip() for text in match.groups()]
        first = texts[0] if texts and texts[0] is not None else ""
        if name in OWN and name not in self.printers:
            begin = match.start()
            if name == "array" and (path := _PATH.search(window.data, max(0, begin - 1000), begin)):
                begin = path.start()  # the array's path stands before it, perhaps on the line above
            prefix = prefix_of_text(window.data, begin)
            self.printers |= {} if prefix is None else {name: prefix.source}
        if name == "config":
            self.sources.setdefault(f"config.{first}", window.source(match.start()))
        elif name in PLACED:
            self.sources.setdefault(PLACED[name], window.source(match.start()))
        match name:
            case "start":
                self.start = self.start or parse_date(first)
                self.exit_code, self.end = None, None  # a job that is tried again goes on in the same log
            case "end":
                self.end = parse_date(first) or self.end
            case "exit_code":
                self.exit_code, self.exit_offset = int(first), window.base + match.start()
            case "config":
                self.config.setdefault(first, texts[1] or "")
            case "jax":
                self._jax = self._jax or first
                self.starts.append(window.base + match.start())
            case "profiler":
                self.profiling.append(window.base + match.start())
            case "jaxlib":
                self._jaxlib = self._jaxlib or first
            case "libtpu":
                self._libtpu = self._libtpu or f"{texts[1]}, {first}"
            case "backend":
                self._backend = self._backend or first
            case "device_kind":
                self._device_kind = self._device_kind or first
            case "devices" if self._devices is None:
                self._devices, self._shape = int(first), texts[1] or ""
            case "mesh_axis":
                self._axes.setdefault(first, int(texts[1] or 0))
            case "process" if self._process is None:
                self._process = int(first)
            case "memory" if self._memory.source is None:
                total, output, temp, argument, host = (None if text is None else float(text) for text in texts)
                self._memory = Memory(
                    total_gb=total, output_gb=output, temp_gb=temp, argument_gb=argument, host_temp_gb=host,
                    source=window.source(match.start()),
                )  # fmt: skip
            case "device_memory":
                self._take_device(match, window)
            case "no_memory":
                self._no_memory = self._no_memory or first
            case "parameters" if self._parameters.source is None:
                # printed with three decimals: 0.000 billion may be any small model
                count = round(float(texts[1] or 0) * _SCALE[texts[2] or ""]) or None
                self._parameters = Parameters(count=count, printed=first, source=window.source(match.start()))
            case "array":
                self._take_array(match, texts, window)
            case "flops":
                total, weights, attention = (None if text is None else float(text) for text in texts)
                self._flops = Flops(total_tflops=total, weight_pct=weights, attention_pct=attention)

    def _take_device(self, match: re.Match[bytes], window: Window) -> None:
        source = window.source(match.start())
        used, limit, percent = (float(match[group]) for group in (1, 2, 3))
        # two decimals each, and the share of the one in the other: a number that lost a digit shows
        rounded = PERCENT_SLACK * (1 + used / limit) / limit if limit else 0.0
        if not limit or abs(100 * used / limit - percent) > 0.01 + rounded:
            return
        device = match[4].decode("utf-8", "replace")
        self._device_memory.setdefault(
            device,
            DeviceMemory(
                device=device, used_gb=used, limit_gb=limit, percent=percent, line=source.line, offset=source.offset
            ),
        )

    def _take_array(self, match: re.Match[bytes], texts: list[str | None], window: Window) -> None:
        path = _PATH.search(window.data, max(0, match.start() - 1000), match.start())
        if path is None:
            return
        name = path[1].decode("utf-8", "replace")
        dtype, shape, logical, physical = texts
        sizes = tuple(int(size) for size in (shape or "").split(",") if size)
        self._arrays.setdefault(
            name, ParameterArray(path=name, dtype=dtype or "", shape=sizes, logical=logical, physical=physical)
        )

    def environment(self) -> Environment:
        """Software and hardware."""
        return Environment(
            jax=self._jax,
            jaxlib=self._jaxlib,
            libtpu=self._libtpu,
            backend=self._backend,
            device_kind=self._device_kind,
            num_devices=self._devices,
            mesh=self._mesh(),
            process_index=self._process,
        )

    def profiled(self, first_step: int) -> frozenset[int]:
        """The steps whose time holds the start of the profiler or its end, by the config that the log prints."""
        if self.config.get("profiler", "").rpartition(".")[2].strip("'\"").lower() in ("", "none"):
            return frozenset()
        try:
            skip, steps = (int(self.config[key]) for key in ("skip_first_n_steps_for_profiler", "profiler_steps"))
        except (KeyError, ValueError):  # versions without these settings
            return frozenset()
        return frozenset((first_step + skip, first_step + skip + steps))

    @property
    def planned_steps(self) -> int | None:
        """How many steps the run was to make, by the config that the log prints."""
        steps = self.config.get("steps", "")
        return int(steps) if steps.isdigit() else None

    def _mesh(self) -> dict[str, int] | None:
        """The mesh axes larger than 1: as printed by name, or the printed shape with the config's axis names."""
        if self._devices is None:
            return None
        named = _SIZES.findall(self._shape)
        sizes = [int(size) for _, size in named] or [int(size) for size in re.findall(r"\d+", self._shape)]
        if math.prod(sizes) != self._devices:
            return None
        if named:
            return {axis: int(size) for axis, size in named if int(size) > 1}
        if sorted(self._axes.values()) == sorted(size for size in sizes if size > 1):
            return dict(self._axes)
        for key in ("mesh_axes", "data_sharding"):
            axes = _WORDS.findall(self.config.get(key, ""))
            if len(axes) == len(sizes):
                return {axis: size for axis, size in zip(axes, sizes, strict=True) if size > 1}
        return None

    def memory(self) -> Memory:
        """The compiler's forecast and the devices' own figures."""
        devices = tuple(self._device_memory.values())
        return self._memory.model_copy(update={"devices": devices, "unavailable": self._no_memory})

    def parameters(self) -> Parameters:
        """How many there are, and the dump of the arrays."""
        return self._parameters.model_copy(update={"arrays": tuple(self._arrays.values())})

    def flops(self) -> Flops:
        """Of one step on one device."""
        return self._flops
