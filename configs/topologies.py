"""The TPU slices (groups of connected chips) that programs can be compiled for ahead of time."""

import math

from configs.errors import ConfigError
from configs.frozen import Frozen

GIB = 2**30
_FLAT = ("1x1", "2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16")
_DEEP = ("2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8", "4x8x8", "8x8x8", "8x8x16", "8x16x16")


class Generation(Frozen):
    """One generation of TPU chips."""

    compiler_name: str  # libtpu's name of the generation
    gke_accelerator: str  # value of the label cloud.google.com/gke-tpu-accelerator of GKE's nodes
    chip_config: str = "default"  # libtpu's configuration of the chip's cores
    devices_per_chip: int = 1  # number of JAX devices
    hbm_gib: float  # memory per device for programs, in GiB
    shapes: tuple[str, ...]  # the slices that Google Cloud offers: chips along each axis, "4x8"
    ring: int  # an axis can be a ring if its number of chips is a multiple of this


# HBM: from libtpu 0.0.50's out-of-memory error. Shapes: https://cloud.google.com/tpu/docs/system-architecture-tpu-vm
GENERATIONS = {
    "v5e": Generation(
        compiler_name="v5e", gke_accelerator="tpu-v5-lite-podslice", hbm_gib=15.75, shapes=_FLAT, ring=16
    ),
    "v5p": Generation(
        compiler_name="v5", gke_accelerator="tpu-v5p-slice", chip_config="megacore", hbm_gib=95.73, shapes=_DEEP, ring=4
    ),
    "v6e": Generation(compiler_name="v6e", gke_accelerator="tpu-v6e-slice", hbm_gib=31.24, shapes=_FLAT, ring=16),
    "v7x": Generation(
        compiler_name="tpu7x",
        gke_accelerator="tpu7x",
        devices_per_chip=2,
        hbm_gib=94.74,
        shapes=("1x1x1", *_DEEP),
        ring=4,
    ),
}


class Topology(Frozen):
    """One shape of TPU slice."""

    name: str  # as in a target's file: "v5p:2x2x1"
    compiler_name: str  # as libtpu expects it: "v5:2x2x1"
    chip_config: str  # libtpu's configuration of the chip's cores
    chips: tuple[int, ...]  # number of chips along each axis
    chips_per_host: tuple[int, int, int]  # number of a host's chips along each axis
    rings: tuple[bool, bool, bool]  # for each axis, whether it is a ring
    devices: int  # number of JAX devices in the slice
    hbm_bytes: int  # memory per device that programs can use, in bytes

    @property
    def gke_labels(self) -> dict[str, str]:
        """The labels of the slice's nodes in GKE."""
        generation, _, shape = self.name.partition(":")
        accelerator = GENERATIONS[generation].gke_accelerator
        return {"cloud.google.com/gke-tpu-accelerator": accelerator, "cloud.google.com/gke-tpu-topology": shape}

    @property
    def host_chips(self) -> int:
        """The number of chips of a host."""
        return math.prod(self.chips_per_host)

    @property
    def hosts(self) -> int:
        """The number of the slice's hosts."""
        return math.prod(self.chips) // self.host_chips


def _make(name: str, shape: str, generation: Generation) -> Topology:
    chips = tuple(map(int, shape.split("x")))
    closed = [size % generation.ring == 0 for size in chips]
    # each axis of a 2D slice may be a ring; the axes of a 3D slice are all rings, or none of them is
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
        kind = name.partition(":")[0]
        near = [kind] if kind in GENERATIONS else list(GENERATIONS)
        known = "; ".join(f"{kind}: {', '.join(GENERATIONS[kind].shapes)}" for kind in near)
        raise ConfigError([f"unknown topology '{name}'; there are: {known}"])
    return TOPOLOGIES[name]
