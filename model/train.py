"""Turns a config into a trained model: `python -m model.train CONFIG.yml [key=value …] [--continue-from RUN_DIR]`."""

import argparse
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
from model.flops import step_flops
from model.implementation import make_implementation
from model.metrics import MetricsFile
from model.program import program_record, read_program, write_program
from model.sharding import make_mesh
from model.step import Declaration, Program, TrainState, compile_step, declare_state, init_state

EXIT_SIGTERM = 128 + signal.SIGTERM


class NonFiniteLoss(ArithmeticError):
    """The loss became nan or inf: nothing after it means anything."""


@dataclass
class StopSignal:
    """Whether SIGTERM has arrived; training looks between two steps."""

    arrived: bool = False


@contextmanager
def catch_sigterm() -> Iterator[StopSignal]:
    """Note SIGTERM instead of dying of it."""
    stop = StopSignal()

    def note(_signal: int, _frame: object) -> None:
        stop.arrived = True

    before = signal.signal(signal.SIGTERM, note)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGTERM, before)


def run_step(program: Program, state: TrainState, batch: jax.Array) -> tuple[TrainState, dict[str, np.float32], float]:
    """One step, its metrics on the host, and the seconds it took.

    JAX returns before the device is done, so a clock around the call alone shows a millisecond for one step and the
    sum of several for the next. Waiting for the metrics makes each time that of its step; what it costs is the
    dispatch of the next step, well under a millisecond, which then no longer overlaps.
    """
    started = time.perf_counter()
    state, metrics = program.run(state, batch)
    on_host = {name: np.float32(value) for name, value in jax.device_get(metrics).items()}
    return state, on_host, time.perf_counter() - started


def train(config: TrainConfig, stop: StopSignal, continue_from: Path | None = None) -> int:
    """Train to `steps`, resuming from the run's last committed checkpoint if it has one.

    Returns:
        the exit status: 0, or 143 after SIGTERM.

    Raises:
        NonFiniteLoss: the loss became nan or inf.
        ConfigError: the config does not fit the devices.
    """
    run_directory = epath.Path(config.base_output_directory) / config.run_name
    metrics_path = Path(config.metrics_file or run_directory / "metrics.jsonl")
    report.log_system()
    mesh = make_mesh(config)
    report.log_devices(mesh)
    manager = None
    if config.enable_checkpointing:
        manager = checkpoint.make_manager(config, checkpoint.checkpoint_directory(run_directory))
    implementation = make_implementation(config)
    declared = declare_state(config, implementation, mesh)
    with ThreadPoolExecutor(max_workers=1) as pool:
        # compiling the step and making or reading its first state take about as long, and do not wait for each other
        start = pool.submit(starting_state, config, declared, manager, run_directory)
        program = compile_step(config, implementation, declared, mesh)
        state, initial_state = start.result()
    record = program_record(implementation.name, program, mesh.size, metrics_path)
    record["initial_state"] = initial_state
    report.log_mesh(mesh)
    report.log_parameters(declared.state.params, declared.axes, mesh)
    report.log_compiled_memory(program.memory)
    report.log_parameter_count(declared.state.params)
    write_program(run_directory, record)
    batch = synthetic_batch(config, mesh)
    try:
        with MetricsFile(metrics_path) as metrics_file:
            state = train_loop(config, program, state, batch, manager, metrics_file, stop)
            if stop.arrived:
                logging.info("SIGTERM: stopped after step %d", int(state.step) - 1)
                return EXIT_SIGTERM
            record["state"] = {"step": int(state.step) - 1, **digest(state)}
    finally:
        if manager is not None:
            manager.wait_until_finished()
            manager.close()
    write_program(run_directory, record)
    report.log_flops(step_flops(config))
    if continue_from is not None:
        del state  # a big model fits once
        record["cross_restore"] = cross_restore(config, declared, program, batch, epath.Path(continue_from))
        write_program(run_directory, record)
    return 0


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
    """Run the steps that are left, each reported and, where due, saved. Ends early when SIGTERM has arrived."""
    first = int(state.step)
    total_weights = batch.shape[0] * config.max_target_length
    for step in range(first, config.steps):
        if stop.arrived:
            break
        state, metrics, seconds = run_step(program, state, batch)
        loss = metrics["loss"]
        finite = bool(np.isfinite(loss))
        if manager is not None and finite:
            checkpoint.save(manager, step, state, force=stop.arrived or step == config.steps - 1)
        if step == first:
            report.log_device_memory("After params initialized")
        report.log_step(config, step=step, seconds=seconds, total_weights=total_weights, loss=loss)
        metrics_file.write(
            {"step": step, "loss": loss, **metrics, "step_time_s": seconds, "total_weights": total_weights}
        )
        if not finite:
            logging.error("Aborting training due to %s loss.", "NaN" if np.isnan(loss) else "Inf")
            raise NonFiniteLoss(
                f"step {step}: the loss is {loss}; lower learning_rate (now {config.learning_rate}) "
                "or resume from an earlier checkpoint"
            )
    return state


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """The trainer's command line."""
    parser = argparse.ArgumentParser(prog="python -m model.train", description="Train one decoder from a config.")
    parser.add_argument("config", type=Path, help="YAML file with the keys that differ from configs/base.yml")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="config values that win over the file")
    parser.add_argument(
        "--continue-from",
        type=Path,
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
        missing = [key for key in ("run_name", "base_output_directory") if not getattr(config, key)]
        if missing:
            raise ConfigError([f"{key} is empty: set it, for example {key}=…" for key in missing])
        if config.log_config:
            report.log_config(config, {})
        with catch_sigterm() as stop:
            return train(config, stop, arguments.continue_from)
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
