"""Saves and restores training states with Orbax, in MaxText's layout."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import jax
from absl import logging
from etils import epath, epy

from configs.schema import TrainConfig
from model.decoder.params import Tree, flatten

with epy.lazy_imports():  # imported at first use, while the step compiles
    import orbax.checkpoint as ocp
    from orbax.checkpoint import checkpoint_managers

if TYPE_CHECKING:
    import grain  # slow to import

type Manager = ocp.CheckpointManager
ITEM, POSITION = "items", "iter"  # MaxText's names of the state and of the position in the data


def checkpoint_directory(run_directory: epath.Path) -> epath.Path:
    """Return the folder of a run's checkpoints."""
    return run_directory / "checkpoints"


def has_steps(config: TrainConfig, run_directory: epath.Path) -> bool:
    """Return whether a run may have checkpoints to resume from: folders with a number. Does not load Orbax."""
    directory = checkpoint_directory(run_directory)
    return config.enable_checkpointing and directory.exists() and any(x.name.isdigit() for x in directory.iterdir())


def make_manager(config: TrainConfig, directory: epath.Path) -> Manager:
    """Return the manager of a run's own checkpoints. Orbax first removes unfinished saves of a killed run."""
    logging.info("Creating checkpoint manager with ocdbt=True and zarr3=True")
    manager = ocp.CheckpointManager(
        directory,
        item_names=tuple(handlers := make_handlers(config)),
        item_handlers=handlers,
        options=ocp.CheckpointManagerOptions(
            create=True,
            cleanup_tmp_directories=True,
            enable_async_checkpointing=config.async_checkpointing,
            save_decision_policy=checkpoint_managers.FixedIntervalPolicy(config.checkpoint_period),
            preservation_policy=checkpoint_managers.LatestN(n=None),
        ),
        logger=None,
    )
    logging.info("Checkpoint manager created!")
    return manager


@contextmanager
def open_manager(config: TrainConfig, run_directory: epath.Path) -> Iterator[Manager | None]:
    """Yield the manager of the run's checkpoints, None if they are switched off. At the end, wait for started saves."""
    if not config.enable_checkpointing:
        yield None
        return
    manager = make_manager(config, checkpoint_directory(run_directory))
    try:
        yield manager
    finally:
        manager.wait_until_finished()
        manager.close()


def find_latest(manager: Manager, last_metrics_step: int | None) -> int | None:
    """Return the step of the newest checkpoint whose step has metrics, else of the newest; None without checkpoints.

    A full disk can leave a checkpoint without the metrics of its step. Then training resumes from an earlier one.
    last_metrics_step: None if the metrics file is missing or empty.
    """
    steps = [step for step in manager.all_steps() if last_metrics_step is None or step <= last_metrics_step]
    latest: int | None = max(steps, default=manager.latest_step())
    return latest


def make_handlers(config: TrainConfig) -> dict[str, Any]:
    """Return the Orbax handler of each item of a checkpoint."""
    handlers: dict[str, Any] = {ITEM: ocp.PyTreeCheckpointHandler(use_ocdbt=True, use_zarr3=True)}
    if config.dataset_type == "grain":
        import grain.checkpoint  # slow to import

        handlers[POSITION] = grain.checkpoint.CheckpointHandler()
    return handlers


def make_reader(config: TrainConfig, directory: epath.Path) -> Manager:
    """Return a read-only manager of the checkpoints in a run's folder."""
    return ocp.CheckpointManager(
        directory,
        item_names=tuple(handlers := make_handlers(config)),
        item_handlers=handlers,
        options=ocp.CheckpointManagerOptions(create=False, read_only=True),
    )


def save(
    config: TrainConfig,
    manager: Manager,
    step: int,
    tree: Tree,
    iterator: "grain.DatasetIterator | None" = None,
    *,
    force: bool = False,
) -> bool:
    """Save the state after `step` if this is due or forced, and the step is not saved yet. Return whether it is.

    tree: the state in the layout of checkpoints (`Api.to_tree`). iterator: grain's, None for synthetic data. If
    `async_checkpointing` is true, returns before the checkpoint is committed.
    """
    if step in manager.all_steps() or not (force or manager.should_save(step)):
        return False
    logging.info("Waiting for step %d to finish before checkpoint...", step)
    started = time.monotonic()
    jax.block_until_ready(tree)
    waited = time.monotonic() - started
    logging.info("Waited %s seconds for step %d to finish before starting checkpointing.", waited, step)
    items = {ITEM: ocp.args.PyTreeSave(tree)}
    if iterator is not None:
        import grain.checkpoint

        items[POSITION] = grain.checkpoint.CheckpointSave(iterator)
    saved = manager.save(step, args=ocp.args.Composite(**items), force=force)
    if saved and config.async_checkpointing:
        logging.info("Started an asynchronous checkpoint save for step %d", step)
    elif saved:
        logging.info("Saved a checkpoint at step %d.", step)
    return bool(saved)


def restore(manager: Manager, step: int, abstract: Tree) -> Tree:
    """Return the tree of the state after `step`, with the shardings of `abstract`."""
    restore_args = ocp.checkpoint_utils.construct_restore_args(abstract)
    restored: Any = manager.restore(
        step, args=ocp.args.Composite(items=ocp.args.PyTreeRestore(item=abstract, restore_args=restore_args))
    )
    return restored[ITEM]


def restore_position(manager: Manager, step: int, iterator: "grain.DatasetIterator | None") -> None:
    """Set grain's iterator to the position in the data after `step`; do nothing if it is None."""
    if iterator is None:
        return
    import grain.checkpoint

    manager.restore(step, args=ocp.args.Composite(**{POSITION: grain.checkpoint.CheckpointRestore(iterator)}))


def tree_difference(manager: Manager, step: int, abstract: Tree) -> str | None:
    """Describe the first array whose dtype or shape differs between a checkpoint and `abstract`; None if all agree."""
    metadata = manager.item_metadata(step)[ITEM]
    there = {path: f"{leaf.dtype}{list(leaf.shape)}" for path, leaf in flatten(metadata).items()}
    here = {path: f"{leaf.dtype}{list(leaf.shape)}" for path, leaf in flatten(abstract).items()}
    for path in sorted(there.keys() | here.keys()):
        if there.get(path) != here.get(path):
            return f"{path} is {here.get(path, 'absent')} here and {there.get(path, 'absent')} there"
    return None
