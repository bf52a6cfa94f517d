"""Runs a recorded training step as its trainer ran it, with donation and shardings, and times turns of some steps."""

import gc
import random
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np
from jax.extend.backend import get_backend
from jaxlib.xla_client import CompileOptions, DeviceAssignment, DeviceList

from maxview_probe.evaluate.recorded_step import RecordedStep
from maxview_probe.observe.thread_times import read_thread_times, run_queue_seconds

WARM_UP = 2  # steps of newly loaded executables before the first turn
COMPILE_SHARE = 0.1  # of the process's time goes into compiling anew; other executables are loaded from compiled ones
_CALLBACK = re.compile(r"custom_call @\w*callback")
_NO_MEMORY = ("RESOURCE_EXHAUSTED", "Out of memory", "out of memory")


class OutOfMemory(Exception):
    """The device or the host has too little memory for the executables and their states."""


class Turn(NamedTuple):
    """Seconds per step of one turn. On a CPU, `wall_s` is without waits for a processor."""

    wall_s: float
    cpu_s: float  # of the host's processor, all threads


class TimedArm(Protocol):
    """One arm's program, in this process or in another one."""

    compile_s: float
    peak_bytes: int | None

    def load(self) -> float:
        """Place a new executable and new buffers, and run the warm-up; return the seconds. Raises OutOfMemory."""
        ...

    def turn(self, steps: int) -> Turn:
        """Run some steps, each from the state after the step before, and return their mean times.

        Raises ValueError if a step fails, and OutOfMemory.
        """
        ...

    def unload(self) -> None:
        """Free the executable and the buffers."""
        ...


class TimedProgram:
    """The program of one recording, in this process."""

    def __init__(self, folder: Path):
        """Read and compile a recording. Raises ValueError with a sentence if it cannot run here, and OutOfMemory."""
        step = RecordedStep(folder)
        platform = step.record.get("platform", "")
        if platform != jax.default_backend():
            raise ValueError(
                f"its program is for {platform or 'an unknown device'}, and here is {jax.default_backend()}"
            )
        if step.devices > jax.device_count():
            raise ValueError(f"its program is for {step.devices} devices, and here are {jax.device_count()}")
        if _CALLBACK.search(step.text):
            raise ValueError("its program calls Python, which a recording does not hold")
        if not any(step.inputs[n].role == "parameter" for n in step.fed):
            raise ValueError("the recording does not show which results the next step takes: train two steps or more")
        self._prepare(step)

    def _prepare(self, step: Any) -> None:
        """Compile a step, which has the text, arguments and batches of a `RecordedStep`."""
        self.step = step
        self.devices = jax.devices()[: step.devices]
        self.options = _compile_options(step)
        self.compiled: list[bytes] = []  # serialized executables
        self.spent_s, self.began = 0.0, time.monotonic()
        self.peak_bytes: int | None = None
        self.executable: Any = None
        self.shardings: Any = None
        self.compile()
        self.compile_s = self.spent_s

    def compile(self) -> None:
        """Compile the program anew, and keep it for later loads where the device can serialize programs."""
        began = time.monotonic()
        with _no_memory_as_such():
            self.executable = get_backend().compile_and_load(
                self.step.text.encode(), DeviceList(tuple(self.devices)), self.options
            )
        self.spent_s += time.monotonic() - began
        try:
            self.compiled.append(self.executable.serialize())
        # this device's programs, or those of JAX 0.8, cannot be serialized: every load compiles
        except (jax.errors.JaxRuntimeError, AttributeError):
            self.compiled = []

    def load(self) -> float:
        """See `TimedArm`."""
        began = time.monotonic()
        if not self.compiled or self.spent_s < COMPILE_SHARE * (began - self.began):
            self.compile()
        else:
            chosen = random.choice(self.compiled)
            with _no_memory_as_such():
                self.executable = get_backend().deserialize_executable(
                    chosen, DeviceList(tuple(self.devices)), self.options
                )
        with _no_memory_as_such():
            self._place()
            for _ in range(WARM_UP):
                jax.block_until_ready(self._run())
        if self.peak_bytes is None:
            self.peak_bytes = _peak_bytes(self.executable)
        return time.monotonic() - began

    def _place(self) -> None:
        """Copy the first call's arguments, and every recorded batch, to the devices."""
        self.shardings = _shardings_of(self.executable, self.devices)
        self.arguments = [self._put(n, value) for n, value in enumerate(self.step.first)]
        self.batches = [
            {n: self._put(n, value) for n, value in self.step.batch(number).items()}
            for number in range(self.step.batches)
        ]
        self.number = 0

    def _put(self, n: int, value: np.ndarray) -> Any:
        return jax.device_put(value.copy(), self.shardings[n] if self.shardings else self.devices[0])

    def _run(self) -> list[Any]:
        """Dispatch one step and keep its state for the next one; return its results."""
        batch = self.batches[self.number % len(self.batches)]
        for n, array in batch.items():
            if array.is_deleted():  # the program may overwrite it
                array = batch[n] = self._put(n, self.step.batch(self.number)[n])
            self.arguments[n] = array
        results = self._execute()
        for n, output in self.step.fed.items():
            self.arguments[n] = results[output]
        self.number += 1
        return results

    def _execute(self) -> list[Any]:
        if len(self.devices) == 1:
            return list(self.executable.execute(self.arguments))
        parts = self.executable.execute_sharded(self.arguments).disassemble_into_single_device_arrays()
        made: list[Any] = parts
        for n, output in self.step.fed.items():
            like = self.arguments[n]
            made[output] = jax.make_array_from_single_device_arrays(like.shape, self.shardings[n], list(parts[output]))
        return made

    def turn(self, steps: int) -> Turn:
        """See `TimedArm`."""
        gc.collect(0)
        gc.disable()
        try:
            threads = read_thread_times()
            wall, cpu = time.perf_counter(), time.process_time()
            for _ in range(steps):
                results = self._run()
            jax.block_until_ready(results)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            if self.devices[0].platform == "cpu":
                wall -= run_queue_seconds(wall, threads, read_thread_times())
        except (MemoryError, jax.errors.JaxRuntimeError) as error:
            kind = OutOfMemory if _is_memory(error) else ValueError
            raise kind(f"its step failed: {_first_line(error)}") from error
        finally:
            gc.enable()
        return Turn(wall / steps, cpu / steps)

    def unload(self) -> None:
        """See `TimedArm`."""
        self.executable = self.shardings = None
        self.arguments, self.batches = [], []
        gc.collect()


class _no_memory_as_such:
    """Turns an error of the runtime into OutOfMemory, or into a ValueError with its first line."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: Any, error: BaseException | None, _trace: Any) -> None:
        if isinstance(error, MemoryError | jax.errors.JaxRuntimeError):
            if _is_memory(error):
                raise OutOfMemory(_first_line(error)) from error
            raise ValueError(f"its program does not compile or run here: {_first_line(error)}") from error


def _is_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or any(word in str(error) for word in _NO_MEMORY)


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0][:300]


def _compile_options(step: Any) -> Any:
    options = CompileOptions()
    if step.devices > 1:
        options.num_partitions = step.devices
        build = options.executable_build_options
        build.num_partitions, build.use_spmd_partitioning = step.devices, True
        build.use_shardy_partitioner = "sdy.mesh" in step.text
        build.device_assignment = DeviceAssignment.create(np.arange(step.devices).reshape(1, step.devices))
    return options


def _shardings_of(executable: Any, devices: Sequence[Any]) -> list[Any] | None:
    """Return the sharding of each argument of a program on several devices; None for one device."""
    if len(devices) == 1:
        return None
    from jax._src.sharding_impls import GSPMDSharding  # the only class that takes the compiler's own shardings

    return [GSPMDSharding(tuple(devices), one) for one in executable.get_parameter_shardings()]


def _peak_bytes(executable: Any) -> int | None:
    """Return the bytes of a program's arguments, results and temporary buffers on one device; None if unknown."""
    try:
        found = executable.get_compiled_memory_stats()
    except jax.errors.JaxRuntimeError:
        return None
    held = found.argument_size_in_bytes + found.output_size_in_bytes - found.alias_size_in_bytes
    return int(held + found.temp_size_in_bytes)
