"""Compiles the training step of a config for a TPU slice, on a machine without a TPU.

    python -m model.compile CONFIG.yml --out DIR --topology v6e:4x8 [key=value …]

writes `compile.json`, the lowered and the optimised program to DIR. `model.train` compiles the same step.
A compiled program in the folder $MAXVIEW_PROGRAMS is reused if its step is equal.
"""

import argparse
import importlib.util
import os
import sys
import time
import traceback
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import jax
from jax.experimental import topologies

from configs.checks import Devices, check_config
from configs.load import ConfigError, load_train_config
from configs.schema import TrainConfig
from configs.topologies import GIB, Topology, find_topology
from model.compile.compile_once import compile_once
from model.compile_record import CompileRecord, describe_input, print_progress, quiet_libtpu, write_at_end
from model.decoder.sharding import make_mesh
from model.train.api import make_api, name_arrays
from model.train.data_source import batch_shape
from model.train.step import compile_lowered, declare_state, lower_step


def compile_ahead(
    config: TrainConfig, devices: Sequence[jax.Device], record: CompileRecord, programs: Path | None = None
) -> None:
    """Lower and compile the training step for `devices`; `record` writes the results.

    programs: folder of compiled programs, for reuse. Raises the error of the model or of the compiler if the step
    cannot be compiled or does not fit into the memory.
    """
    print_progress("lowering")
    start = time.monotonic()
    setup = declare_state(config, make_api(config), make_mesh(config, devices))
    shapes = batch_shape(config, setup.mesh)._asdict()
    batch = {f"batch/{name}": leaf for name, leaf in shapes.items() if leaf is not None}
    record.arrays = [
        describe_input(path, leaf.shape, leaf.dtype, leaf.sharding)
        for path, leaf in (name_arrays(setup.api, setup.arrays) | batch).items()
    ]
    lowered = lower_step(setup)
    record.write_lowered(lowered, round(time.monotonic() - start, 3))
    compile_step = partial(compile_lowered, setup, lowered)
    if programs is None:
        record.compile(lowered, compile_step)
    else:
        compile_once(record, lowered, compile_step, programs)


def describe_devices(topology: Topology) -> Sequence[jax.Device]:
    """Return the devices of a slice, as the TPU compiler describes them."""
    described = topologies.get_topology_desc(
        platform="tpu",
        topology_name=topology.compiler_name,
        chip_config_name=topology.chip_config,
        chips_per_host_bounds=topology.chips_per_host,
        wrap=topology.rings,
        num_slices=1,
    )
    return described.devices


def check_compiler() -> None:
    """Raise ConfigError if the compiler for TPUs (libtpu) is not installed."""
    if importlib.util.find_spec("libtpu") is None:
        raise ConfigError(["libtpu, which compiles for TPUs, is not installed: uv sync --extra tpu"])


def parse_command(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m model.compile", description="Compile a training step for a TPU.")
    parser.add_argument("config", type=Path, help="YAML file with the keys that differ from configs/base.yml")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="config values that override the file")
    parser.add_argument("--out", type=Path, required=True, help="folder for compile.json and both texts")
    parser.add_argument("--topology", required=True, help="the slice, for example v6e:4x8")
    return parser.parse_intermixed_args(argv)


def main(argv: Sequence[str]) -> int:
    """Run the command line. Exit status: 0 compiled, 1 does not compile or fit, 2 invalid config, or no libtpu."""
    arguments = parse_command(argv)
    try:
        topology = find_topology(arguments.topology)
        config = load_train_config(arguments.config, arguments.overrides)
        check_config(config, Devices(count=topology.devices, platform="tpu", memory_gib=topology.hbm_bytes / GIB))
        check_compiler()
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    quiet_libtpu()
    programs = os.environ.get("MAXVIEW_PROGRAMS")
    record = CompileRecord(arguments.out, topology.name, topology.hbm_bytes, topology.devices)
    try:
        with write_at_end(record):
            compile_ahead(config, describe_devices(topology), record, Path(programs) if programs else None)
    except Exception:
        traceback.print_exc()
        return 1
    total, seconds = record.facts["memory"]["total"] / GIB, record.facts["compile_seconds"]
    print_progress(f"done in {seconds:.0f} s: {total:.3f} of {record.hbm_bytes / GIB:.2f} GiB of a device")
    return 0
