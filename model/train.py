"""Turns a config into a trained model: `python -m model.train CONFIG.yml [key=value …] [--continue-from RUN_DIR]`."""

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from absl import flags, logging
from etils import epath
from jax.sharding import Mesh

from configs.load import ConfigError, load_train_config
from configs.model_checks import pipeline_shape
from configs.same_run import find_changes, find_difference, identity
from configs.schema import TrainConfig
from model import checkpoint, report
from model.clock import StepClock
from model.cross_restore import cross_restore
from model.data import DataSource, check_data, make_source
from model.dialect import Dialect, make_dialect, name_arrays, step_of
from model.digest import digest
from model.distributed import join_processes, leave_processes
from model.evaluation import Evaluation, make_evaluation
from model.flops import step_flops
from model.metrics import MetricsFile, Number, to_number
from model.outputs import CONFIG, Outputs
from model.params import Tree
from model.pipeline import schedule_events
from model.place import find_metrics_copy, find_metrics_path, find_run_directory, make_run_directory
from model.program import program_record, read_program, write_program
from model.sharding import check_backend, find_devices, make_mesh
from model.step import DeclaredState, Program, declare_state, init_state, lower_step, make_program
from model.stop import EXIT_SIGTERM, StopSignal, catch_sigterm

MAKE_ROOM = "free some, or choose another base_output_directory or metrics_file; the same command then goes on"


class NonFiniteLoss(ArithmeticError):
    """The loss, or what a step made of the parameters, is nan or inf: nothing after it means anything."""


class ResumeChanges(RuntimeError):
    """A run that stopped and went on is not what it would have been."""


def run_step(program: Program, state: Tree, source: DataSource, clock: StepClock) -> tuple[Tree, dict[str, Number]]:
    """One step, and its metrics on the host.

    JAX returns before the device is done, so a clock around the call alone shows a millisecond for one step and the
    sum of several for the next. Waiting for the metrics makes each time that of its step; what it costs is the
    dispatch of the next step, well under a millisecond, which then no longer overlaps.
    """
    with clock.part("input_s"):
        batch = source.next()
    with clock.part("device_s"):
        state, metrics = program.run(state, batch)
        on_host = {name: to_number(value) for name, value in jax.device_get(metrics).items()}
    return state, on_host


def train(config: TrainConfig, stop: StopSignal, continue_from: epath.Path | None = None) -> int:
    """Train to `steps`, resuming from the run's last committed checkpoint if it has one.

    Returns:
        the exit status: 0, or 143 after SIGTERM.

    Raises:
        NonFiniteLoss: the loss or the parameters became nan or inf.
        ConfigError: the config does not fit the devices.
        ResumeChanges: `resume_after_step` did not prove what it should.
    """
    run_directory = find_run_directory(config)
    join_processes(config)
    metrics_path = find_metrics_path(config, run_directory)
    if config.log_config:
        report.log_config(config)
    find_devices()
    report.log_system()
    check_backend(config)
    check_data(config)
    mesh = make_mesh(config)
    report.log_devices(mesh)
    dialect = make_dialect(config)
    declared = declare_state(config, dialect, mesh)
    fresh = not checkpoint.has_steps(config, run_directory)
    source = None if fresh else open_folder(config, mesh, run_directory, dialect.to_tree(declared.arrays))
    make_run_directory(run_directory)
    with (
        MetricsFile(metrics_path, find_metrics_copy(config, run_directory)) as metrics_file,
        Outputs(config, run_directory, fresh=fresh) as outputs,
        ThreadPoolExecutor(max_workers=1) as pool,
    ):
        # the compiler runs without Python's lock: meanwhile Orbax is loaded and the first state made
        compiling = pool.submit(make_program, config, declared, lower_step(config, dialect, declared, mesh), mesh)
        source = source or make_source(config, mesh)
        with checkpoint.open_manager(config, run_directory) as manager:
            told = metrics_file.told
            state, first = starting_state(config, dialect, declared, mesh, manager, run_directory, source, told)
            program = compiling.result()
            of_run = {"identity": identity(config, source.described), "initial_state": first}
            record = of_run | program_record(dialect.name, program, num_devices=mesh.size, metrics_file=metrics_path)
            write_program(run_directory, record)
            report_program(config, declared, program, mesh)
            evaluation = make_evaluation(config, dialect, declared, mesh)
            run = Run(config, dialect, declared, program, source, manager, metrics_file, outputs, stop, evaluation)
            state = train_loop(run, state)
            done = step_of(dialect, state)
            if stop.arrived:
                logging.info("SIGTERM: stopped after %d of %d steps", done, config.steps)
                return EXIT_SIGTERM
            record["state"] = {"step": done - 1, **digest(name_arrays(dialect, state))}
    write_program(run_directory, record)
    report.log_flops(step_flops(config))
    del state  # a big model fits once
    if config.resume_after_step >= 0:
        prove_resume(run, mesh, record)
    if continue_from is not None:
        record["cross_restore"] = cross_restore(config, dialect, declared, program, mesh, continue_from, stop)
        write_program(run_directory, record)
    return EXIT_SIGTERM if stop.arrived else 0


def report_program(config: TrainConfig, declared: DeclaredState, program: Program, mesh: Mesh) -> None:
    """What will be trained, before its first step."""
    report.log_mesh(mesh)
    if config.ici_pipeline_parallelism > 1:
        report.print_line("\n".join(schedule_events(pipeline_shape(config))))
    report.log_parameters(declared.parameters, mesh)
    report.log_compiled_memory(program.memory)
    report.log_parameter_count(declared.parameters)


def open_folder(config: TrainConfig, mesh: Mesh, run_directory: epath.Path, abstract: Tree) -> DataSource:
    """The data of a run that goes on. Raises ConfigError, before anything is changed or compiled, where the folder's
    last checkpoint is none that this run can go on from."""
    source = make_source(config, mesh)
    with closing(checkpoint.make_reader(config, checkpoint.checkpoint_directory(run_directory))) as reader:
        latest = reader.latest_step()
        if latest is None:
            return source
        before = (read_program(run_directory) or {}).get("identity", {})
        difference = find_difference(before, identity(config, source.described))
        difference = difference or checkpoint.tree_difference(reader, latest, abstract)
    if difference:
        file = run_directory / CONFIG
        began = find_changes(config, file.read_text() if file.exists() else "") or "the same keys"
        told = f"run_name: {run_directory} holds another run: {difference}; it began with {began}"
        raise ConfigError([f"{told} (choose another run_name)"])
    if latest >= config.steps:
        raise ConfigError([f"steps={config.steps}: {run_directory} has already done {latest + 1} (ask for more)"])
    return source


def starting_state(
    config: TrainConfig,
    dialect: Dialect,
    declared: DeclaredState,
    mesh: Mesh,
    manager: checkpoint.Manager | None,
    run_directory: epath.Path,
    source: DataSource,
    told: int | None,
) -> tuple[Tree, dict[str, Any] | None]:
    """The last committed checkpoint's state, with the data where it was, or the state before step 0; and the digest of
    the run's first weights. told: the last step of the metrics."""
    latest = None if manager is None else checkpoint.find_latest(manager, told)
    if manager is not None:
        logging.info("checkpoint manager exists so trying to load this run's existing checkpoint")
    if latest is None:
        logging.info("No existing checkpoints found, not restoring checkpoint.")
        state = init_state(config, dialect, declared, mesh)
        return state, {"step": -1, **digest(weights_of(dialect, state))}
    logging.info("restoring from this run's directory step %d", latest)
    before = read_program(run_directory)
    state = dialect.from_tree(checkpoint.restore(manager, latest, dialect.to_tree(declared.arrays)))
    checkpoint.restore_place(manager, latest, source.iterator)
    return state, before["initial_state"] if before else None


def weights_of(dialect: Dialect, state: Tree) -> dict[str, jax.Array]:
    """The parameters of a state by path."""
    arrays = name_arrays(dialect, state)
    return {path.removeprefix("params/"): leaf for path, leaf in arrays.items() if path.startswith("params/")}


class Run(NamedTuple):
    """What training goes on with from step to step, beside the state."""

    config: TrainConfig
    dialect: Dialect
    declared: DeclaredState
    program: Program
    source: DataSource
    manager: checkpoint.Manager | None
    metrics_file: MetricsFile
    outputs: Outputs
    stop: StopSignal
    evaluation: Evaluation | None


def train_loop(run: Run, state: Tree) -> Tree:
    """Run the steps that are left, each reported and, where due, saved.

    When SIGTERM has arrived, the steps done so far are saved and the loop ends.
    """
    config, first = run.config, step_of(run.dialect, state)
    done, clock = first, StepClock()
    for step in range(first, config.steps):
        if run.stop.reached(step):
            break
        run.outputs.before(step)
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            state, metrics = run_step(run.program, state, run.source, clock)
        done, finite = step + 1, is_finite(metrics)
        with clock.part("save_s"):
            saved = finite and save(run, step, state, force=done == config.steps)
        if step == first:
            report.log_device_memory("After params initialized")
        record = report_step(run, step, metrics, clock)
        if run.evaluation is not None and done % config.eval_interval == 0 and finite:
            record["eval_loss"] = run.evaluation.run(step, state)
            clock.restart()
        with clock.part("report_s"):
            run.metrics_file.write(record)
            run.outputs.after(step, record)
        if saved:
            run.metrics_file.publish()
        if not finite:
            raise NonFiniteLoss(explain_non_finite(config, step, metrics))
        if step == config.resume_after_step:
            state = forget_and_restore(run, step, state)
            clock.restart()
    if run.stop.arrived and done > first:
        save(run, done - 1, state, force=True)
    return state


def save(run: Run, step: int, state: Tree, *, force: bool) -> bool:
    """Start a checkpoint where one is due. True if there is one."""
    if run.manager is None:
        return False
    tree, iterator = run.dialect.to_tree(state), run.source.iterator
    return checkpoint.save(run.config, run.manager, step, tree, iterator, force=force)


def report_step(run: Run, step: int, metrics: dict[str, Number], clock: StepClock) -> dict[str, Number]:
    """The line of a step in the log; returns that of the metrics file."""
    wall_s, cpu_s, waited_s, parts = clock.finish()
    # where the processor is the device, its time is what the step costs, whatever else the machine does meanwhile
    shared = {"step_cpu_time_s": cpu_s, "step_wait_s": waited_s} if run.config.hardware == "cpu" else {}
    times = {"step_time_s": wall_s} | shared
    with clock.part("report_s"):
        report.log_step(run.config, step=step, seconds=wall_s, metrics=metrics)
    losses = {"loss": metrics["loss"], "perplexity": report.perplexity(metrics["lm_loss"])}
    return {"step": step, **losses, **metrics, **times, **parts}


def forget_and_restore(run: Run, step: int, state: Tree) -> Tree:
    """The state after `step`, out of its checkpoint."""
    save(run, step, state, force=True)
    assert run.manager is not None  # a config that resumes has checkpoints
    run.manager.wait_until_finished()
    jax.tree.map(lambda array: array.delete(), state)
    logging.info("restoring from this run's directory step %d", step)
    abstract = run.dialect.to_tree(run.declared.arrays)
    checkpoint.restore_place(run.manager, step, run.source.iterator)
    return run.dialect.from_tree(checkpoint.restore(run.manager, step, abstract))


def prove_resume(run: Run, mesh: Mesh, record: dict[str, Any]) -> None:
    """Train again without a stop. Raises ResumeChanges unless every array ends with the same bits."""
    state, source = init_state(run.config, run.dialect, run.declared, mesh), make_source(run.config, mesh)
    for _ in range(run.config.steps):
        state, _ = run.program.run(state, source.next())
    whole, resumed = digest(name_arrays(run.dialect, state))["arrays"], record["state"]["arrays"]
    different = sorted(path for path in whole if whole[path] != resumed[path])
    done = f"stopped after step {run.config.resume_after_step}, restored and trained on"
    if different:
        raise ResumeChanges(f"{done}: {len(different)} of {len(whole)} arrays differ from a run without a stop")
    logging.info("%s: all %d arrays are those of a run without a stop, bit for bit", done, len(whole))


def is_finite(metrics: dict[str, Number]) -> bool:
    """Whether a step leaves something to go on with; the loss that its update breaks is only the next step's."""
    return bool(np.isfinite(metrics["loss"]) and np.isfinite(metrics["param_norm"]))


def explain_non_finite(config: TrainConfig, step: int, metrics: dict[str, Number]) -> str:
    """What is no number any more, the keys to change, and what is left."""
    loss, norm = metrics["loss"], metrics["param_norm"]
    of_params = f"found {'NaN' if np.isnan(norm) else 'Inf'} in the norm of the parameters after its update"
    broken = of_params if np.isfinite(loss) else f"the loss is {loss}"
    left = "; the checkpoints of earlier steps are intact, and the same command goes on from the last of them"
    return (
        f"step {step}: {broken}; lower learning_rate (now {config.learning_rate}) or clip gradients more "
        f"(gradient_clipping_threshold, now {config.gradient_clipping_threshold})"
        f"{left if config.enable_checkpointing else ''}"
    )


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
    """The command line: 0 trained, 1 not to its end, 2 the input is wrong, 143 stopped by SIGTERM."""
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
    except Exception as error:
        full = [name for name in map(os.strerror, (errno.ENOSPC, errno.EDQUOT)) if name in str(error)]
        if not full and not isinstance(error, NonFiniteLoss | ResumeChanges):
            raise
        said = f"{full[0]} ({MAKE_ROOM})" if full else error
        logging.error("Training stopped: %s", said)  # MaxText's words: whoever reads the log knows them
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
