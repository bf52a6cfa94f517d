"""The TPU slices for ahead-of-time compiles: shapes and device memory."""

import math

from configs.errors import ConfigError
from configs.schema import Frozen

GIB = 2**30
_FLAT = ("1x1", "2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16")
_DEEP = ("2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8", "4x8x8", "8x8x8", "8x8x16", "8x16x16")


class Generation(Frozen):
    """One kind of TPU."""

    compiler_name: str  # libtpu's name
    chip_config: str = "default"
    devices_per_chip: int = 1
    hbm_gib: float  # of each device, usable by programs: from the compiler's message for a too large program
    shapes: tuple[str, ...]  # chips along each axis of a slice, as Google Cloud offers them
    ring: int  # an axis whose length is a multiple of this is a ring


# HBM: available by libtpu 0.0.50. Shapes: https://cloud.google.com/tpu/docs/system-architecture-tpu-vm
GENERATIONS = {
    "v5e": Generation(compiler_name="v5e", hbm_gib=15.75, shapes=_FLAT, ring=16),
    "v5p": Generation(compiler_name="v5", chip_config="megacore", hbm_gib=95.73, shapes=_DEEP, ring=4),
    "v6e": Generation(compiler_name="v6e", hbm_gib=31.24, shapes=_FLAT, ring=16),
    "v7x": Generation(compiler_name="tpu7x", devices_per_chip=2, hbm_gib=94.74, shapes=("1x1x1", *_DEEP), ring=4),
}


class Topology(Frozen):
    """One slice."""

    name: str  # "v6e:4x8"
    compiler_name: str  # "v6e:4x8", as libtpu reads it
    chip_config: str
    chips: tuple[int, ...]  # along each axis
    chips_per_host: tuple[int, int, int]
    rings: tuple[bool, bool, bool]  # which axes are rings
    devices: int
    hbm_bytes: int  # of each device


def _make(name: str, shape: str, generation: Generation) -> Topology:
    chips = tuple(map(int, shape.split("x")))
    closed = [size % generation.ring == 0 for size in chips]
    # in a 2D slice each axis by itself, in a 3D slice all or none
    rings = (*closed, False) if len(chips) == 2 else (all(closed),) * 3
    return Topology(
        name=f"{name}:{shape}",
        compiler_name=f"{generation.compiler_name}:{shape}",
        chip_config=generation.chip_config,
        chips=chips,
        chips_per_host=(1, 1, 1) if math.prod(chips) == 1 else (2, 2, 1),
        rings=rings,
        devices=math.prod(chips) * generation.devices_per_chip,
        hbm_bytes=int(generation.hbm_gib * GIB),
    )


TOPOLOGIES = {
    topology.name: topology
    for name, generation in GENERATIONS.items()
    for topology in (_make(name, shape, generation) for shape in generation.shapes)
}


def find_topology(name: str) -> Topology:
    """Return the slice with this name. Raises ConfigError with the known names."""
    if name not in TOPOLOGIES:
        known = "; ".join(f"{kind}: {', '.join(made.shapes)}" for kind, made in GENERATIONS.items())
        raise ConfigError([f"unknown topology '{name}'; there are: {known}"])
    return TOPOLOGIES[name]
