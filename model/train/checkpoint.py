"""Turns a training state into a committed checkpoint and back, with Orbax, in MaxText's layout."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import jax
from absl import logging
from etils import epath, epy

from configs.schema import TrainConfig
from model.decoder.params import Tree, flatten

with epy.lazy_imports():  # loaded where it is first used: while the step compiles
    import orbax.checkpoint as ocp
    from orbax.checkpoint import checkpoint_managers

if TYPE_CHECKING:
    import grain  # it takes seconds to load

type Manager = ocp.CheckpointManager
ITEM, PLACE = "items", "iter"  # the state, and how far the data was read; MaxText's names


def checkpoint_directory(run_directory: epath.Path) -> epath.Path:
    """Where a run keeps its checkpoints."""
    return run_directory / "checkpoints"


def has_steps(config: TrainConfig, run_directory: epath.Path) -> bool:
    """Whether a run may have checkpoints to go on from; asked without Orbax."""
    directory = checkpoint_directory(run_directory)
    return config.enable_checkpointing and directory.exists() and any(x.name.isdigit() for x in directory.iterdir())


def make_manager(config: TrainConfig, directory: epath.Path) -> Manager:
    """The manager of a run's own checkpoints. Unfinished ones, of a run that was killed, are removed first."""
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
    """The run's checkpoints, None where they are switched off. However the run ends, started saves are committed."""
    if not config.enable_checkpointing:
        yield None
        return
    manager = make_manager(config, checkpoint_directory(run_directory))
    try:
        yield manager
    finally:
        manager.wait_until_finished()
        manager.close()


def find_latest(manager: Manager, told: int | None) -> int | None:
    """The last step to go on from. Of one whose metrics found no room on the disk the checkpoint may be there all the
    same: it is done again. told: the last step of the metrics, None if they are gone."""
    steps = [step for step in manager.all_steps() if told is None or step <= told]
    latest: int | None = max(steps, default=manager.latest_step())
    return latest


def make_handlers(config: TrainConfig) -> dict[str, Any]:
    """What writes and reads each item of a checkpoint."""
    handlers: dict[str, Any] = {ITEM: ocp.PyTreeCheckpointHandler(use_ocdbt=True, use_zarr3=True)}
    if config.dataset_type == "grain":
        import grain.checkpoint  # it takes seconds to load

        handlers[PLACE] = grain.checkpoint.CheckpointHandler()
    return handlers


def make_reader(config: TrainConfig, directory: epath.Path) -> Manager:
    """A manager of somebody else's checkpoints: it reads and changes nothing."""
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
    """Start a checkpoint of the state after `step`. True if this step is due, or forced, and not saved already.

    tree: the api's own (`Api.to_tree`). iterator: grain's, where data is read.
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

        items[PLACE] = grain.checkpoint.CheckpointSave(iterator)
    saved = manager.save(step, args=ocp.args.Composite(**items), force=force)
    if saved and config.async_checkpointing:
        logging.info("Started an asynchronous checkpoint save for step %d", step)
    elif saved:
        logging.info("Saved a checkpoint at step %d.", step)
    return bool(saved)


def restore(manager: Manager, step: int, abstract: Tree) -> Tree:
    """The tree of the state after `step`, placed as `abstract` says."""
    restore_args = ocp.checkpoint_utils.construct_restore_args(abstract)
    restored: Any = manager.restore(
        step, args=ocp.args.Composite(items=ocp.args.PyTreeRestore(item=abstract, restore_args=restore_args))
    )
    return restored[ITEM]


def restore_place(manager: Manager, step: int, iterator: "grain.DatasetIterator | None") -> None:
    """Bring grain's iterator to where the data was after `step`; nothing where none is read."""
    if iterator is None:
        return
    import grain.checkpoint

    manager.restore(step, args=ocp.args.Composite(**{PLACE: grain.checkpoint.CheckpointRestore(iterator)}))


def tree_difference(manager: Manager, step: int, abstract: Tree) -> str | None:
    """The first array that a checkpoint and `abstract` do not have in common, None if there is none."""
    metadata = manager.item_metadata(step)[ITEM]
    there = {path: f"{leaf.dtype}{list(leaf.shape)}" for path, leaf in flatten(metadata).items()}
    here = {path: f"{leaf.dtype}{list(leaf.shape)}" for path, leaf in flatten(abstract).items()}
    for path in sorted(there.keys() | here.keys()):
        if there.get(path) != here.get(path):
            return f"{path} is {here.get(path, 'absent')} here and {there.get(path, 'absent')} there"
    return None
