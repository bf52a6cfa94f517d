"""Trains a model: makes or restores its state, runs the steps, and saves checkpoints."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, NamedTuple

import jax
import numpy as np
from absl import logging
from etils import epath

from configs.load import ConfigError
from configs.model_checks import pipeline_shape
from configs.same_run import find_changed_keys, find_difference, identity
from configs.schema import TrainConfig
from model.decoder.params import Tree
from model.decoder.pipeline import schedule_events
from model.decoder.sharding import check_backend, find_devices, make_mesh
from model.train import checkpoint, report
from model.train.api import Api, make_api, name_arrays, step_of
from model.train.batch_digest import BatchDigests
from model.train.clock import StepClock
from model.train.cross_restore import cross_restore
from model.train.data_source import DataSource, make_source
from model.train.distributed import join_processes
from model.train.evaluation import Evaluation, make_evaluation
from model.train.flops import step_flops
from model.train.memory import read_memory
from model.train.metrics_file import MetricsFile, Number, to_number
from model.train.outputs import CONFIG, Outputs
from model.train.program_record import program_record, read_program_record, write_program
from model.train.run_paths import (
    check_data,
    find_metrics_copy,
    find_metrics_path,
    find_run_directory,
    make_run_directory,
)
from model.train.state_digest import describe_change, digest_state, measure_state
from model.train.step import CompiledStep, Setup, declare_state, init_state, lower_step, make_program
from model.train.stop import EXIT_SIGTERM, StopSignal


class NonFiniteLoss(ArithmeticError):
    """The loss or the updated parameters are nan or inf."""


class ResumeMismatch(RuntimeError):
    """A restore, or the training after it, gave other arrays than were saved, or than uninterrupted training."""


def run_step(
    program: CompiledStep, state: Tree, source: DataSource, clock: StepClock, digests: BatchDigests
) -> tuple[Tree, dict[str, Number]]:
    """Run one step and copy its metrics to the host.

    JAX returns before the device is done, so the call alone would seem to take a millisecond in one step and the time
    of several steps in another. Waiting for the metrics gives each step its own time. In return, dispatching the next
    step (well under a millisecond) does not overlap with the device's work.
    """
    with clock.part("input_s"):
        batch = source.next()
        digests.start_copy(batch)
    with clock.part("device_s"):
        state, metrics = program.run(state, batch)
        on_host = {name: to_number(value) for name, value in jax.device_get(metrics).items()}
    return state, on_host


def train(config: TrainConfig, stop: StopSignal, continue_from: epath.Path | None = None) -> int:
    """Train until `steps` steps are done, resuming from the run's last checkpoint if it has one.

    Returns:
        the exit status: 0, or 143 after SIGTERM.

    Raises:
        NonFiniteLoss: the loss or the parameters became nan or inf.
        ConfigError: the config does not fit the devices, the data, or the run in the folder.
        ResumeMismatch: training with a restore after `resume_after_step` gave other arrays than training without it.
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
    setup = declare_state(config, make_api(config), mesh)
    fresh = not checkpoint.has_steps(config, run_directory)
    source = None if fresh else check_resume(setup, run_directory)
    make_run_directory(run_directory)
    with (
        MetricsFile(metrics_path, find_metrics_copy(config, run_directory)) as metrics_file,
        Outputs(config, run_directory, fresh=fresh) as outputs,
        ThreadPoolExecutor(max_workers=1) as pool,
    ):
        # XLA compiles without the GIL; in the meantime this thread loads Orbax and makes the first state
        compiling = pool.submit(make_program, setup, lower_step(setup))
        source = source or make_source(config, mesh)
        with checkpoint.open_manager(config, run_directory) as manager:
            state, first = starting_state(setup, manager, run_directory, source, metrics_file.last_step)
            program = compiling.result()
            record = {"identity": identity(config, source.described), "initial_state": first} | program_record(
                setup.api.name, program, num_devices=mesh.size, metrics_file=metrics_path
            )
            write_program(run_directory, record)
            report_program(setup, program)
            run = Run(setup, program, source, manager, metrics_file, outputs, stop, make_evaluation(setup))
            state = train_loop(run, state)
            done = step_of(setup.api, state)
            if stop.arrived:
                logging.info("SIGTERM: stopped after %d of %d steps", done, config.steps)
                return EXIT_SIGTERM
            record["state"] = {"step": done - 1, **digest_state(name_arrays(setup.api, state))}
    write_program(run_directory, record)
    report.log_flops(step_flops(config))
    del state  # the next functions make another state, and two states of a large model do not fit into memory
    if config.resume_after_step >= 0:
        prove_resume(run, record)
    if continue_from is not None:
        record["cross_restore"] = cross_restore(setup, program, continue_from, stop)
        write_program(run_directory, record)
    return EXIT_SIGTERM if stop.arrived else 0


def report_program(setup: Setup, program: CompiledStep) -> None:
    """Log the mesh, the pipeline schedule, the parameters and the memory of the compiled step."""
    report.log_mesh(setup.mesh)
    if setup.config.ici_pipeline_parallelism > 1:
        report.print_line("\n".join(schedule_events(pipeline_shape(setup.config))))
    report.log_parameters(setup.parameters, setup.mesh)
    report.log_compiled_memory(program.memory)
    report.log_parameter_count(setup.parameters)


def check_resume(setup: Setup, run_directory: epath.Path) -> DataSource:
    """Return the data source of a resumed run.

    Raises ConfigError, before anything is changed or compiled, if the folder's last checkpoint belongs to a different
    run or was saved after more than `steps` steps.
    """
    config = setup.config
    source = make_source(config, setup.mesh)
    with closing(checkpoint.make_reader(config, checkpoint.checkpoint_directory(run_directory))) as reader:
        latest = reader.latest_step()
        if latest is None:
            return source
        before = (read_program_record(run_directory) or {}).get("identity", {})
        difference = find_difference(before, identity(config, source.described))
        difference = difference or checkpoint.tree_difference(reader, latest, setup.api.to_tree(setup.arrays))
    if difference:
        file = run_directory / CONFIG
        began = find_changed_keys(config, file.read_text() if file.exists() else "") or "the same keys"
        other = f"{run_directory} contains a different run: {difference}; that run was started with {began}"
        raise ConfigError([f"run_name: {other} (choose another run_name)"])
    if latest >= config.steps:
        done = f"has already trained {latest + 1} steps"
        raise ConfigError([f"steps={config.steps}: {run_directory} {done} (set a larger steps)"])
    return source


def starting_state(
    setup: Setup,
    manager: checkpoint.Manager | None,
    run_directory: epath.Path,
    source: DataSource,
    last_metrics_step: int | None,
) -> tuple[Tree, dict[str, Any] | None]:
    """Return the state of the checkpoint to resume from, else a new one, and the digest of the run's first weights.

    The data source is set to the checkpoint's position. The digest is None if a resumed run has no `program.json`.
    """
    latest = None if manager is None else checkpoint.find_latest(manager, last_metrics_step)
    if manager is not None:
        logging.info("checkpoint manager exists so trying to load this run's existing checkpoint")
    if latest is None:
        logging.info("No existing checkpoints found, not restoring checkpoint.")
        state = init_state(setup)
        return state, {"step": -1, **digest_state(weights_of(setup.api, state))}
    logging.info("restoring from this run's directory step %d", latest)
    before = read_program_record(run_directory)
    state = setup.api.from_tree(checkpoint.restore(manager, latest, setup.api.to_tree(setup.arrays)))
    checkpoint.restore_position(manager, latest, source.iterator)
    return state, before["initial_state"] if before else None


def weights_of(api: Api, state: Tree) -> dict[str, jax.Array]:
    """Return the parameters of a state by path, without the prefix `params/`."""
    arrays = name_arrays(api, state)
    return {path.removeprefix("params/"): leaf for path, leaf in arrays.items() if path.startswith("params/")}


class Run(NamedTuple):
    """The objects that the training loop needs besides the state; None: checkpoints or evaluation are switched off."""

    setup: Setup
    program: CompiledStep
    source: DataSource
    manager: checkpoint.Manager | None
    metrics_file: MetricsFile
    outputs: Outputs
    stop: StopSignal
    evaluation: Evaluation | None


def train_loop(run: Run, state: Tree) -> Tree:
    """Run the remaining steps, log each, and save checkpoints that are due. Return the last state.

    After SIGTERM, save a checkpoint and return. Raises NonFiniteLoss.
    """
    config, first = run.setup.config, step_of(run.setup.api, state)
    done, clock, digests = first, StepClock(), BatchDigests()
    for step in range(first, config.steps):
        if run.stop.reached(step):
            break
        run.outputs.before_step(step)
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            state, metrics = run_step(run.program, state, run.source, clock, digests)
        done, finite = step + 1, is_finite(metrics)
        with clock.part("save_s"):
            saved = finite and start_save(run, step, state, force=done == config.steps)
        if step == first:
            report.log_device_memory("After params initialized")
        record = report_step(run, step, metrics, clock, digests)
        if run.evaluation is not None and done % config.eval_interval == 0 and finite:
            record["eval_loss"] = run.evaluation.run(step, state)
            clock.restart()
        with clock.part("report_s"):
            run.metrics_file.write(record)
            run.outputs.after_step(step, record)
        if saved:
            run.metrics_file.publish()
        if not finite:
            raise NonFiniteLoss(explain_non_finite(config, step, metrics))
        if step == config.resume_after_step:
            state = save_and_restore(run, step, state)
            clock.restart()
    if run.stop.arrived and done > first:
        start_save(run, done - 1, state, force=True)
    return state


def start_save(run: Run, step: int, state: Tree, *, force: bool) -> bool:
    """Start saving a checkpoint if it is due or forced, and the step is not saved yet.

    Return whether saving was started; False without checkpoints.
    """
    if run.manager is None:
        return False
    tree, iterator = run.setup.api.to_tree(state), run.source.iterator
    return checkpoint.save(run.setup.config, run.manager, step, tree, iterator, force=force)


def report_step(
    run: Run, step: int, metrics: dict[str, Number], clock: StepClock, digests: BatchDigests
) -> dict[str, Number]:
    """End the step's time and log it in one line; return its record for the metrics file."""
    wall_s, cpu_s, waited_s, parts = clock.finish()
    # only on CPUs: there, processor time measures a step's cost independently of other load
    shared = {"step_cpu_time_s": cpu_s, "step_wait_s": waited_s} if run.setup.config.hardware == "cpu" else {}
    times = {"step_time_s": wall_s} | shared
    with clock.part("report_s"):
        report.log_step(run.setup.config, step=step, seconds=wall_s, metrics=metrics)
        facts = read_memory() | digests.read()
    losses = {"loss": metrics["loss"], "perplexity": report.perplexity(metrics["lm_loss"])}
    return {"step": step, **losses, **metrics, **times, **parts, **facts}


def save_and_restore(run: Run, step: int, state: Tree) -> Tree:
    """Save the state after `step`, delete its arrays, and restore it from the checkpoint.

    Raises ResumeMismatch if an array comes back with other bits.
    """
    start_save(run, step, state, force=True)
    assert run.manager is not None  # the config checks that a resume has checkpoints
    run.manager.wait_until_finished()
    saved = measure_state(name_arrays(run.setup.api, state))
    jax.tree.map(lambda array: array.delete(), state)
    logging.info("restoring from this run's directory step %d", step)
    api = run.setup.api
    checkpoint.restore_position(run.manager, step, run.source.iterator)
    restored = api.from_tree(checkpoint.restore(run.manager, step, api.to_tree(run.setup.arrays)))
    if change := describe_change(saved, name_arrays(api, restored)):
        raise ResumeMismatch(f"the state restored after step {step} is not the saved one: {change}")
    return restored


def prove_resume(run: Run, record: dict[str, Any]) -> None:
    """Train again from step 0 without a restore. Raises ResumeMismatch unless every array ends with the same bits."""
    config = run.setup.config
    state, source = init_state(run.setup), make_source(config, run.setup.mesh)
    for _ in range(config.steps):
        state, _ = run.program.run(state, source.next())
    whole, resumed = digest_state(name_arrays(run.setup.api, state))["arrays"], record["state"]["arrays"]
    different = sorted(path for path in whole if whole[path] != resumed[path])
    restored = f"the run restored after step {config.resume_after_step}"
    if different:
        raise ResumeMismatch(
            f"{restored} differs from an uninterrupted run in {len(different)} of {len(whole)} arrays, "
            f"first {different[0]}"
        )
    logging.info("%s has the same bits in all %d arrays as an uninterrupted run", restored, len(whole))


def is_finite(metrics: dict[str, Number]) -> bool:
    """Return whether loss and updated parameters are finite.

    The parameters are checked too: after a bad update, the loss becomes NaN or infinite only in the next step.
    """
    return bool(np.isfinite(metrics["loss"]) and np.isfinite(metrics["param_norm"]))


def explain_non_finite(config: TrainConfig, step: int, metrics: dict[str, Number]) -> str:
    """Return the error message: the value that became NaN or infinite, the keys to change, and how to resume."""
    loss, norm = metrics["loss"], metrics["param_norm"]
    bad_parameters = f"found {'NaN' if np.isnan(norm) else 'Inf'} in the norm of the parameters after its update"
    broken = bad_parameters if np.isfinite(loss) else f"the loss is {loss}"
    left = "; earlier checkpoints are intact; the same command resumes from the newest one"
    return (
        f"step {step}: {broken}; lower learning_rate (now {config.learning_rate}) or clip gradients more "
        f"(gradient_clipping_threshold, now {config.gradient_clipping_threshold})"
        f"{left if config.enable_checkpointing else ''}"
    )
