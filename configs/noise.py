"""Loads configs/noise.yml: by kind of device, how much step times of equal runs differ, and the tolerances there."""

from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import Field

from configs.load import read_entries
from configs.read import CONFIG_ROOT, read_yaml
from configs.schema import Frozen

Share = Annotated[float, Field(gt=0, lt=10, allow_inf_nan=False, strict=True)]
DeviceKind = Literal["tpu", "gpu", "cpu", "cpu_time"]  # cpu_time: not a device, but a step's CPU time


class DeviceNoise(Frozen):
    """The noise of step times on a kind of device until a target has a history; shares of the step time."""

    equal_runs: Share  # standard deviation of the difference between two consecutive equal runs
    weight: Annotated[float, Field(ge=1, le=1000)]  # degrees of freedom: the number of run pairs this is worth
    days_apart: Share  # added if the arms' runs were not adjacent in time
    places_apart: Share | None = None  # added if on two slices or hosts; None in old plans: days_apart applies
    tolerance: Share  # differences up to this are accepted
    least: Share  # smaller differences are never reported
    why: Annotated[str, Field(min_length=1)]


def load_noises(*, root: Path = CONFIG_ROOT) -> dict[DeviceKind, DeviceNoise]:
    """Return the noise of step times on every kind of device. Raises ConfigError."""
    path = root / "noise.yml"
    kinds: tuple[DeviceKind, ...] = get_args(DeviceKind)
    return read_entries(read_yaml(path), path, DeviceNoise, kinds, "kind of device", required=kinds)


def device_kind_of(name: str | None, backend: str | None) -> DeviceKind:
    """Return the kind of a device from its name in a log ("TPU v6 lite", "NVIDIA H100") and JAX's backend name.

    Any name without "tpu" and "cpu", also an unknown one, is treated as a GPU.
    """
    text = f"{name or ''} {backend or ''}".lower()
    if "tpu" in text:
        return "tpu"
    return "cpu" if "cpu" in text else "gpu"
