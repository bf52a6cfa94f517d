"""Reads configs/noise.yml: the noise of equal runs on each kind of device, and the smallest relevant difference."""

from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import Field

from configs.load import read_entries
from configs.read import CONFIG_ROOT, read_yaml
from configs.schema import Frozen

Share = Annotated[float, Field(gt=0, lt=10, allow_inf_nan=False, strict=True)]
DeviceKind = Literal["tpu", "gpu", "cpu", "cpu_time"]  # cpu_time: the CPU time of a step


class DeviceNoise(Frozen):
    """The noise of equal runs on a kind of device, and the smallest relevant difference, as shares of the step time."""

    equal_runs: Share
    weight: Annotated[float, Field(ge=1, le=1000)]
    days_apart: Share
    places_apart: Share | None = None  # None in old plans: then days_apart applies
    tolerance: Share
    least: Share
    why: Annotated[str, Field(min_length=1)]


def load_noises(*, root: Path = CONFIG_ROOT) -> dict[DeviceKind, DeviceNoise]:
    """Return the noise of every kind of device. Raises ConfigError."""
    path = root / "noise.yml"
    kinds: tuple[DeviceKind, ...] = get_args(DeviceKind)
    return read_entries(read_yaml(path), path, DeviceNoise, kinds, "kind of device", required=kinds)


def device_kind_of(name: str | None, backend: str | None) -> DeviceKind:
    """Return the kind of a device by its name in a log ("TPU v6 lite", "NVIDIA H100") and JAX's backend name.

    If the log has neither, it is treated as a GPU.
    """
    text = f"{name or ''} {backend or ''}".lower()
    if "tpu" in text:
        return "tpu"
    return "cpu" if "cpu" in text else "gpu"
