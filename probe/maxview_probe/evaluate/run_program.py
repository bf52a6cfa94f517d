"""Compiles StableHLO programs and runs them on arrays of NumPy, on one device or on several (virtual) ones."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.backend import get_backend
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxlib.xla_client import CompileOptions, DeviceAssignment, DeviceList


class RunnableProgram:
    """One compiled program. All arguments and results are whole on every device."""

    def __init__(self, text: str, devices: int, *, quickly: bool = False, platform: str | None = None):
        """Compile a program for `devices` devices. Raises ValueError if it does not compile here.

        quickly: skip the compiler's optimisations, for programs that run only a few times. Halves the compile time.
        platform: of the devices; None: JAX's default.
        """
        if devices > jax.device_count(platform):
            raise ValueError(f"the step runs on {devices} devices; here are {jax.device_count(platform)}")
        self.devices = jax.devices(platform)[:devices]
        options = CompileOptions()
        if quickly:
            debug = options.executable_build_options.debug_options
            debug.xla_backend_optimization_level, debug.xla_llvm_disable_expensive_passes = 0, True
        if devices > 1:
            options.num_partitions = devices
            build = options.executable_build_options
            build.num_partitions, build.use_spmd_partitioning = devices, True
            build.use_shardy_partitioner = "sdy.mesh" in text
            build.device_assignment = DeviceAssignment.create(np.arange(devices).reshape(1, devices))
            build.allow_spmd_sharding_propagation_to_output = [False]
            build.allow_spmd_sharding_propagation_to_parameters = [False]
        try:
            self.executable = get_backend(platform).compile_and_load(
                text.encode(), DeviceList(tuple(self.devices)), options
            )
        except jax.errors.JaxRuntimeError as error:
            raise ValueError(f"the program does not compile here: {str(error).partition(chr(10))[0]}") from error
        mesh = Mesh(np.array(self.devices), ("all",))
        self.everywhere = NamedSharding(mesh, PartitionSpec())

    def __call__(self, arguments: Sequence[Any]) -> list[Any]:
        """Run the program; return its results as arrays of NumPy: of each device's copies the one farthest from the
        first. A program may leave other values on some of the devices.
        """
        # only one device's copy is returned: as long as it is in use, the copies of the others would stay too
        copies = ([np.asarray(one.data) for one in found.addressable_shards] for found in self.run(self.put(arguments)))
        return [find_farthest(one) for one in copies]

    def put(self, arguments: Sequence[Any]) -> list[Any]:
        """Return the arguments on the program's devices."""
        place = self.everywhere if len(self.devices) > 1 else self.devices[0]
        return [jax.device_put(one, place) for one in arguments]

    def run(self, given: Sequence[Any]) -> list[Any]:
        """Run the program; return its results on its devices, where they can be arguments of the next run."""
        if len(self.devices) == 1:
            return list(self.executable.execute(given))
        made = self.executable.execute_sharded(given).disassemble_into_single_device_arrays()
        return [jax.make_array_from_single_device_arrays(shards[0].shape, self.everywhere, shards) for shards in made]


def find_farthest(copies: Sequence[Any]) -> Any:
    """Return the copy of an array that differs most from the first copy; the first one if all are equal."""
    first = copies[0]
    others = [one for one in copies[1:] if not np.array_equal(one, first)]
    return max(others, key=lambda one: np.abs(one.astype(np.float64) - first).max(), default=first)
