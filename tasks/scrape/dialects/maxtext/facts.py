"""Collects the facts that MaxText prints once per start: environment, memory, parameters, FLOPs, config, start, end.

The XPK frame consists of the first and last lines that the launcher XPK prints around a run.
"""

import math
import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tasks.records.log_reading import DeviceMemory, Environment, Flops, Memory, ParameterArray, Parameters, StepCompile
from tasks.records.shared_fields import Source
from tasks.scrape.prefixes import parse_date, prefix_before
from tasks.scrape.window import Window, text_of

_SCALE = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_PATH = re.compile(rb"(\S+)\s+\Z")
# name of a pattern → name of the fact in the records
PLACED = {"jax": "jax", "jaxlib": "jaxlib", "libtpu": "libtpu", "backend": "backend", "device_kind": "device_kind",
          "named_device": "device_kind", "devices": "num_devices", "process": "process_index", "flops": "flops",
          "start": "started"}  # fmt: skip
# patterns of messages that MaxText itself prints: the source lines that print them show MaxText's version
OWN = frozenset({"jax", "devices", "memory", "device_memory", "parameters", "array", "config", "save_announced",
                 "eval_start", "eval"})  # fmt: skip
_TYPE = re.compile(r"ShapedArray\(([^()]*)\)")
_SIZES = re.compile(r"'(\w+)': (\d+)")
# factor of the largest accepted error of a percentage (see `_take_device`); 0.5 is the error of rounding two sizes to
# 0.01 GB
PERCENT_SLACK = 1.0


@dataclass
class FactCollector:
    """Collects facts. A fact that restarts print again keeps its first value.

    Exceptions: `end` and `flops` keep the last value, and `compiles` the compilations by the last process.
    """

    start: datetime | None = None  # from the XPK frame, like `end`
    end: datetime | None = None
    starts: list[int] = field(default_factory=list)  # offsets where processes of the run start
    profiling: list[int] = field(default_factory=list)  # offsets where the profiler starts or writes
    config: dict[str, str] = field(default_factory=dict)
    sources: dict[str, Source] = field(default_factory=dict)  # fact or `config.KEY` → place of its first value
    printers: dict[str, str] = field(default_factory=dict)  # name in OWN → `file.py:12` that printed this message first
    flops: Flops = field(default_factory=Flops)  # FLOPs of one step on one device
    compiles: list[StepCompile] = field(default_factory=list)  # compilations of the train step
    _environment: dict[str, Any] = field(default_factory=dict)
    _shape: str = ""
    _axes: dict[str, int] = field(default_factory=dict)
    _memory: Memory = field(default_factory=Memory)
    _device_memory: dict[str, DeviceMemory] = field(default_factory=dict)
    _parameters: Parameters = field(default_factory=Parameters)
    _arrays: dict[str, ParameterArray] = field(default_factory=dict)

    def take(self, name: str, match: re.Match[bytes], window: Window) -> None:
        texts = [None if text is None else text_of(text).strip() for text in match.groups()]
        first, source = (texts or [None])[0] or "", window.source(match.start())
        path = _PATH.search(window.data, max(0, match.start() - 1000), match.start()) if name == "array" else None
        if name in OWN and name not in self.printers:
            # an array's message begins with its path, which may be on the line above
            _, printer = prefix_before(window, path.start() if path else match.start())
            self.printers |= {} if printer is None else {name: printer}
        if name == "config":
            self.sources.setdefault(f"config.{first}", source)
        elif name in PLACED:
            self.sources.setdefault(PLACED[name], source)
        match name:
            case "start":
                self.start = self.start or parse_date(first)
                self.end = None  # a retried job continues in the same log
            case "end":
                self.end = parse_date(first) or self.end
            case "config":
                self.config.setdefault(first, texts[1] or "")
            case "jax" | "jaxlib" | "backend" | "device_kind" | "named_device":
                self._environment.setdefault(PLACED[name], first)
                if name == "jax":
                    self.starts.append(source.offset)
                    self.compiles.clear()  # a restarted process compiles once more
            case "libtpu":
                self._environment.setdefault(name, f"{texts[1]}, {first}")
            case "process":
                self._environment.setdefault("process_index", int(first))
            case "compiling":
                self.compiles.append(StepCompile(signature=tuple(_TYPE.findall(first)), source=source))
            case "devices" if "num_devices" not in self._environment:
                self._environment["num_devices"], self._shape = int(first), texts[1] or ""
            case "profiler":
                self.profiling.append(source.offset)
            case "mesh_axis":
                self._axes.setdefault(first, int(texts[1] or 0))
            case "memory" if self._memory.source is None:
                sizes = ("total_gb", "output_gb", "temp_gb", "argument_gb", "host_temp_gb")
                printed = {size: float(text) for size, text in zip(sizes, texts, strict=True) if text is not None}
                self._memory = self._memory.replace(**printed, source=source)
            case "no_memory" if self._memory.unavailable is None:
                self._memory = self._memory.replace(unavailable=first)
            case "device_memory":
                self._take_device(match, window.place(match.start()))
            case "parameters" if self._parameters.source is None:
                # None for 0.000 billion: three decimals are printed, so this may be any small model
                count = round(float(texts[1] or 0) * _SCALE[texts[2] or ""]) or None
                self._parameters = Parameters(count=count, printed=first, source=source)
            case "array" if path is not None:
                dtype, shape, logical, physical = texts
                array = ParameterArray(
                    path=text_of(path[1]), dtype=dtype or "", logical=logical, physical=physical,
                    shape=tuple(int(size) for size in (shape or "").split(",") if size),
                )  # fmt: skip
                self._arrays.setdefault(array.path, array)
            case "flops":
                total, weights, attention = (None if text is None else float(text) for text in texts)
                self.flops = Flops(total_tflops=total, weight_pct=weights, attention_pct=attention)

    def _take_device(self, match: re.Match[bytes], place: dict[str, int]) -> None:
        used, limit, percent = (float(match[group]) for group in (1, 2, 3))
        # a percentage that does not match the sizes shows that a number lost a digit: the line is ignored
        rounded = PERCENT_SLACK * (1 + used / limit) / limit if limit else 0.0
        if limit and abs(100 * used / limit - percent) <= 0.01 + rounded:
            device = text_of(match[4])
            memory = DeviceMemory(device=device, used_gb=used, limit_gb=limit, percent=percent, **place)
            self._device_memory.setdefault(device, memory)

    def profiled(self, first_step: int) -> frozenset[int]:
        """Return the steps whose time includes the profiler's start or end, by the printed config."""
        if self.config.get("profiler", "").rpartition(".")[2].strip("'\"").lower() in ("", "none"):
            return frozenset()
        try:
            skip, steps = (int(self.config[key]) for key in ("skip_first_n_steps_for_profiler", "profiler_steps"))
        except (KeyError, ValueError):  # versions without these settings
            return frozenset()
        return frozenset((first_step + skip, first_step + skip + steps))

    def fields(self) -> dict[str, Any]:
        """Return the facts as fields of a `RunReading`."""
        return {
            "environment": Environment(**self._environment, mesh=self._mesh()), "flops": self.flops,
            "memory": self._memory.replace(devices=tuple(self._device_memory.values())),
            "parameters": self._parameters.replace(arrays=tuple(self._arrays.values())),
            "compiles": tuple(self.compiles), "config": self.config, "sources": self.sources,
            "printers": self.printers, "ended": self.end.isoformat() if self.end else None,
        }  # fmt: skip

    def _mesh(self) -> dict[str, int] | None:
        """Return name → size of the mesh axes larger than 1, by names in the log or config; None if unknown."""
        named = _SIZES.findall(self._shape)
        sizes = [int(size) for _, size in named] or [int(size) for size in re.findall(r"\d+", self._shape)]
        if math.prod(sizes) != self._environment.get("num_devices"):
            return None
        if named:
            return {axis: int(size) for axis, size in named if int(size) > 1}
        if sorted(self._axes.values()) == sorted(size for size in sizes if size > 1):
            return dict(self._axes)
        for key in ("mesh_axes", "data_sharding"):
            axes = re.findall(r"[\w.-]+", self.config.get(key, ""))
            if len(axes) == len(sizes):
                return {axis: size for axis, size in zip(axes, sizes, strict=True) if size > 1}
        return None
