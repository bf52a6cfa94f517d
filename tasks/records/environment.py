"""Records of the software, hardware, memory, parameters and FLOPs that a log prints."""

from configs.schema import Frozen
from tasks.records.source import Source


class Environment(Frozen):
    """The software and hardware that a log prints; None for values that it does not contain."""

    jax: str | None = None  # version
    jaxlib: str | None = None  # version
    libtpu: str | None = None  # libtpu's build, e.g. "cl/878335365, Mar 4 2026"
    backend: str | None = None  # JAX's platform, e.g. "tpu"
    device_kind: str | None = None  # e.g. "TPU v6 lite"
    num_devices: int | None = None  # of all processes
    mesh: dict[str, int] | None = None  # axis of the device mesh -> size, without axes of size 1
    process_index: int | None = None  # JAX's number of the process that wrote the log
    place: str | None = None  # cluster and nodes, from the launcher's notes in the log


class DeviceMemory(Frozen):
    """The memory use of one device, from a line `Using (GB) used / limit (percent) on device`."""

    device: str  # name of the device, as printed
    used_gb: float  # in GB as printed
    limit_gb: float
    percent: float  # 100 × used / limit
    line: int  # 1-based
    offset: int  # byte offset of the line


class Memory(Frozen):
    """The compiler's estimate of the program's memory in GB as printed, and the measured use of each device."""

    total_gb: float | None = None  # *_gb: None if not printed
    output_gb: float | None = None
    temp_gb: float | None = None
    argument_gb: float | None = None
    host_temp_gb: float | None = None
    source: Source | None = None  # position of the estimate; None without one
    devices: tuple[DeviceMemory, ...] = ()
    unavailable: str | None = None  # error in the line `Memstats unavailable, error: …`


class ParameterArray(Frozen):
    """One array in the list of parameters that a trainer prints."""

    path: str
    dtype: str
    shape: tuple[int, ...]
    logical: str | None = None  # logical axis names, as printed
    physical: str | None = None  # mesh axes, as printed


class Parameters(Frozen):
    """The number of parameters and the list of parameter arrays, as printed."""

    count: int | None = None  # None if not printed, or printed as 0
    printed: str | None = None  # the text from which `count` was read
    source: Source | None = None
    arrays: tuple[ParameterArray, ...] = ()


class Flops(Frozen):
    """The FLOPs of a training step per device, from the block `Per train step:`."""

    total_tflops: float | None = None  # in TFLOP
    weight_pct: float | None = None  # percent of them in products with weights
    attention_pct: float | None = None  # percent of them in attention
