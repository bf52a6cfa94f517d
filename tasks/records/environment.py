"""Software, hardware, memory and parameters in a log."""

from configs.schema import Frozen
from tasks.records.source import Source


class Environment(Frozen):
    """The software and hardware lines of a log; None for missing values."""

    jax: str | None = None
    jaxlib: str | None = None
    libtpu: str | None = None  # libtpu's build, e.g. "cl/878335365, Mar 4 2026"
    backend: str | None = None
    device_kind: str | None = None
    num_devices: int | None = None
    mesh: dict[str, int] | None = None  # axes larger than 1, by name if the log names them
    process_index: int | None = None
    place: str | None = None  # the cluster and its nodes, as the launcher noted them


class DeviceMemory(Frozen):
    """One `Using (GB) …` line."""

    device: str
    used_gb: float
    limit_gb: float
    percent: float
    line: int
    offset: int


class Memory(Frozen):
    """The compiler's estimate in GB as printed, and the devices' figures."""

    total_gb: float | None = None
    output_gb: float | None = None
    temp_gb: float | None = None
    argument_gb: float | None = None
    host_temp_gb: float | None = None
    source: Source | None = None
    devices: tuple[DeviceMemory, ...] = ()
    unavailable: str | None = None  # the reason of `Memstats unavailable, error: …`


class ParameterArray(Frozen):
    """One array of the parameter dump."""

    path: str
    dtype: str
    shape: tuple[int, ...]
    logical: str | None = None
    physical: str | None = None


class Parameters(Frozen):
    """The printed parameter count (`printed` is the text behind `count`) and the dump's arrays."""

    count: int | None = None
    printed: str | None = None
    source: Source | None = None
    arrays: tuple[ParameterArray, ...] = ()


class Flops(Frozen):
    """The `Per train step:` block."""

    total_tflops: float | None = None
    weight_pct: float | None = None
    attention_pct: float | None = None
