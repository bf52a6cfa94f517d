"""Turns a config into a trained model: `python -m model.train CONFIG.yml [key=value …] [--continue-from RUN_DIR]`."""

import argparse
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from absl import flags, logging
from etils import epath

from configs.load import ConfigError, load_train_config
from configs.schema import TrainConfig
from model import checkpoint, report
from model.cross_restore import cross_restore
from model.data import synthetic_batch
from model.digest import digest
from model.distributed import join_processes, leave_processes
from model.flops import step_flops
from model.implementation import make_implementation
from model.metrics import MetricsFile
from model.place import find_metrics_copy, find_metrics_path, find_run_directory, make_run_directory
from model.program import program_record, read_program, write_program
from model.sharding import check_backend, make_mesh
from model.step import Declaration, Program, TrainState, compile_step, declare_state, init_state
from model.stop import EXIT_SIGTERM, StopSignal, catch_sigterm


class NonFiniteLoss(ArithmeticError):
    """The loss became nan or inf: nothing after it means anything."""


class Clocks(NamedTuple):
    """What one step took, in seconds: on the wall, and of processor time in all threads of this process."""

    wall_s: float
    cpu_s: float


def run_step(program: Program, state: TrainState, batch: jax.Array) -> tuple[TrainState, dict[str, np.float32], Clocks]:
    """One step, its metrics on the host, and what it took.

    JAX returns before the device is done, so a clock around the call alone shows a millisecond for one step and the
    sum of several for the next. Waiting for the metrics makes each time that of its step; what it costs is the
    dispatch of the next step, well under a millisecond, which then no longer overlaps.
    """
    started, used = time.perf_counter(), time.process_time()
    state, metrics = program.run(state, batch)
    on_host = {name: np.float32(value) for name, value in jax.device_get(metrics).items()}
    return state, on_host, Clocks(wall_s=time.perf_counter() - started, cpu_s=time.process_time() - used)


def train(config: TrainConfig, stop: StopSignal, continue_from: epath.Path | None = None) -> int:
    """Train to `steps`, resuming from the run's last committed checkpoint if it has one.

    Returns:
        the exit status: 0, or 143 after SIGTERM.

    Raises:
        NonFiniteLoss: the loss became nan or inf.
        ConfigError: the config does not fit the devices.
    """
    run_directory = find_run_directory(config)
    join_processes(config)
    metrics_path = find_metrics_path(config, run_directory)
    if config.log_config:
        report.log_config(config)
    report.log_system()
    check_backend(config)
    mesh = make_mesh(config)
    report.log_devices(mesh)
    make_run_directory(run_directory)
    copy = find_metrics_copy(config, run_directory)
    with MetricsFile(metrics_path, copy) as metrics_file, checkpoint.open_manager(config, run_directory) as manager:
        implementation = make_implementation(config)
        declared = declare_state(config, implementation, mesh)
        with ThreadPoolExecutor(max_workers=1) as pool:
            # compiling the step and making its first state take about as long and do not need each other
            start = pool.submit(starting_state, config, declared, manager, run_directory)
            program = compile_step(config, implementation, declared, mesh)
            state, initial_state = start.result()
        record = program_record(
            implementation.name,
            program,
            num_devices=mesh.size,
            metrics_file=metrics_path,
            initial_state=initial_state,
        )
        write_program(run_directory, record)
        report.log_mesh(mesh)
        report.log_parameters(declared.state.params, declared.axes, mesh)
        report.log_compiled_memory(program.memory)
        report.log_parameter_count(declared.state.params)
        batch = synthetic_batch(config, mesh)
        state = train_loop(config, program, state, batch, manager, metrics_file, stop)
        if stop.arrived:
            logging.info("SIGTERM: stopped after %d of %d steps", int(state.step), config.steps)
            return EXIT_SIGTERM
        record["state"] = {"step": int(state.step) - 1, **digest(state)}
    write_program(run_directory, record)
    report.log_flops(step_flops(config))
    if continue_from is not None:
        del state  # a big model fits once
        record["cross_restore"] = cross_restore(config, declared, program, batch, continue_from, stop)
        write_program(run_directory, record)
    return EXIT_SIGTERM if stop.arrived else 0


def starting_state(
    config: TrainConfig, declared: Declaration, manager: Any, run_directory: epath.Path
) -> tuple[TrainState, dict[str, Any] | None]:
    """The last committed checkpoint's state, or the state before step 0; and the digest of the run's first weights."""
    latest = None if manager is None else manager.latest_step()
    if manager is not None:
        logging.info("checkpoint manager exists so trying to load this run's existing checkpoint")
    if latest is None:
        logging.info("No existing checkpoints found, not restoring checkpoint.")
        state = init_state(config, declared)
        return state, {"step": -1, **digest(state.params)}
    logging.info("restoring from this run's directory step %d", latest)
    difference = checkpoint.tree_difference(manager, latest, declared.state)
    if difference:
        raise ConfigError([f"run_name: {run_directory} holds another model: {difference} (choose another run_name)"])
    if latest >= config.steps:
        raise ConfigError([f"steps={config.steps}: {run_directory} has already done {latest + 1} (ask for more)"])
    before = read_program(run_directory)
    return checkpoint.restore(manager, latest, declared.state), before["initial_state"] if before else None


def train_loop(
    config: TrainConfig,
    program: Program,
    state: TrainState,
    batch: jax.Array,
    manager: Any,
    metrics_file: MetricsFile,
    stop: StopSignal,
) -> TrainState:
    """Run the steps that are left, each reported and, where due, saved.

    When SIGTERM has arrived, the steps done so far are saved and the loop ends.
    """
    first = int(state.step)
    total_weights = batch.shape[0] * config.max_target_length
    for step in range(first, config.steps):
        if stop.reached(step):
            break
        state, metrics, took = run_step(program, state, batch)
        loss = metrics["loss"]
        if manager is not None and np.isfinite(loss):
            saved = checkpoint.save(config, manager, step, state, force=step == config.steps - 1)
        else:
            saved = False
        if step == first:
            report.log_device_memory("After params initialized")
        report.log_step(config, step=step, seconds=took.wall_s, total_weights=total_weights, loss=loss)
        # where the processor is the device, its time is what the step costs, whatever else the machine does meanwhile
        times = {"step_time_s": took.wall_s} | ({"step_cpu_time_s": took.cpu_s} if config.hardware == "cpu" else {})
        metrics_file.write({"step": step, "loss": loss, **metrics, **times, "total_weights": total_weights})
        if saved:
            metrics_file.publish()
        if not np.isfinite(loss):
            logging.error("Aborting training due to %s loss.", "NaN" if np.isnan(loss) else "Inf")
            raise NonFiniteLoss(
                f"step {step}: the loss is {loss}; lower learning_rate (now {config.learning_rate}) "
                "or resume from an earlier checkpoint"
            )
    done = int(state.step)
    if stop.arrived and manager is not None and done > first:
        checkpoint.save(config, manager, done - 1, state, force=True)
    return state


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """The trainer's command line."""
    parser = argparse.ArgumentParser(prog="python -m model.train", description="Train one decoder from a config.")
    parser.add_argument("config", type=Path, help="YAML file with the keys that differ from configs/base.yml")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="config values that win over the file")
    parser.add_argument(
        "--continue-from",
        type=epath.Path,
        metavar="RUN_DIR",
        help="afterwards restore this run's first checkpoint, train on, and compare with what it logged",
    )
    return parser.parse_intermixed_args(argv)


def main(argv: Sequence[str]) -> int:
    """The command line: 0 trained, 1 the loss is not finite, 2 the input is wrong, 143 stopped by SIGTERM."""
    arguments = parse_arguments(argv)
    flags.FLAGS.mark_as_parsed()  # the libraries' flags keep their defaults; this command line is our own
    logging.use_absl_handler()
    logging.set_verbosity(logging.INFO)
    try:
        config = load_train_config(arguments.config, arguments.overrides)
        with catch_sigterm() as stop:
            code = train(config, stop, arguments.continue_from)
            leave_processes()
            return code
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
