"""Compiles StableHLO programs and runs them on arrays of NumPy, on one device or on several (virtual) ones."""

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.extend.backend import get_backend
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxlib.version import __version__ as jaxlib_version
from jaxlib.xla_client import CompileOptions, DeviceAssignment, DeviceList

from maxview_probe.observe.observation_files import atomic_path

DIGEST_SIZE = hashlib.sha256().digest_size
AT_ONCE = 2  # programs of one device that run at once; each holds its arguments, results and temporaries


def run_at_once(runs: Sequence[Callable[[], list[Any]]], *, devices: int) -> list[list[Any]]:
    """Return the results of several runs of programs, in their order; at once if all are of one device.

    Two programs whose (virtual) devices wait for each other may not run at once: they share the host's threads.
    """
    if devices > 1:
        return [run() for run in runs]
    wide = jax.config.jax_enable_x64  # a thread has JAX's default of its own

    def call(run: Callable[[], list[Any]]) -> list[Any]:
        with jax.enable_x64(wide):
            return run()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(call, runs))


class RunnableProgram:
    """One compiled program. All arguments and results are whole on every device."""

    def __init__(
        self,
        text: str,
        devices: int,
        *,
        quickly: bool = False,
        platform: str | None = None,
        kept: "KeptPrograms | None" = None,
    ):
        """Compile a program for `devices` devices. Raises ValueError if it does not compile here.

        quickly: skip the compiler's optimisations, for programs that run only a few times. Halves the compile time.
        platform: of the devices; None: JAX's default. kept: holds compiled programs of one device.
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
        self.place = DeviceList(tuple(self.devices))
        kept = kept if devices == 1 else None
        self.executable: Any = kept.load(text, self.place, quickly=quickly) if kept is not None else None
        if self.executable is None:
            try:
                self.executable = get_backend(platform).compile_and_load(text.encode(), self.place, options)
            except jax.errors.JaxRuntimeError as error:
                raise ValueError(f"the program does not compile here: {str(error).partition(chr(10))[0]}") from error
            if kept is not None:
                kept.keep(text, self.executable, quickly=quickly)
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


@dataclass(frozen=True)
class KeptPrograms:
    """Compiled programs of JAX's default backend in a folder, each named by all that its machine code is made from."""

    folder: Path
    made_by: str  # tells compiler and processor

    def load(self, text: str, devices: DeviceList, *, quickly: bool) -> Any:
        """Return a program that was compiled before; None if there is none that can be read."""
        try:
            content = self._file(text, quickly=quickly).read_bytes()
            digest, program = content[:DIGEST_SIZE], content[DIGEST_SIZE:]
            if digest != hashlib.sha256(program).digest():
                return None
            return get_backend().deserialize_executable(program, devices)
        except (OSError, TypeError, AttributeError, jax.errors.JaxRuntimeError):
            return None

    def keep(self, text: str, executable: Any, *, quickly: bool) -> None:
        """Write a compiled program; a compiler that cannot write it, or a full disk, costs only the next compile."""
        with suppress(OSError, AttributeError, jax.errors.JaxRuntimeError):
            program = executable.serialize()
            self.folder.mkdir(exist_ok=True)
            with atomic_path(self._file(text, quickly=quickly)) as path:
                path.write_bytes(hashlib.sha256(program).digest() + program)

    def _file(self, text: str, *, quickly: bool) -> Path:
        facts = [self.made_by, jaxlib_version, os.environ.get("XLA_FLAGS"), quickly, text]
        return self.folder / f"{hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:24]}.xla"


def find_farthest(copies: Sequence[Any]) -> Any:
    """Return the copy of an array that differs most from the first copy; the first one if all are equal."""
    first = copies[0]
    others = [one for one in copies[1:] if not np.array_equal(one, first)]
    return max(others, key=lambda one: np.abs(one.astype(np.float64) - first).max(), default=first)
