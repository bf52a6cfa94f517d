"""Restores another run's first checkpoint, trains on, and compares the result with that run's, bit for bit."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
from absl import logging
from etils import epath

from model.train.api import Api, make_api, name_arrays
from model.train.checkpoint import checkpoint_directory, make_reader, restore, restore_position, tree_difference
from model.train.data_source import make_source
from model.train.metrics_file import read_losses
from model.train.program_record import read_program_record
from model.train.state_digest import digest_state
from model.train.step import CompiledStep, Setup, declare_state
from model.train.stop import StopSignal


def cross_restore(setup: Setup, program: CompiledStep, other: epath.Path, stop: StopSignal) -> dict[str, Any]:
    """Restore the earliest committed checkpoint of the run in `other`, train on to `steps`, and compare bit for bit.

    Every loss is compared with the other run's metrics, and the final state with its `program.json`. Returns the result
    for this run's `program.json`. Never raises, because a failed attempt is no failure of this run: then `holds` is
    None, and `evidence` is the reason.
    """
    result = {"from": other.name, "implementation": None, "restored_step": None, "steps": 0, "holds": None}
    try:
        result |= _continue_other_run(setup, program, other, stop)
    except Exception as error:
        # only one line: log parsers would take a traceback for the end of the run
        reason = str(error).partition("\n")[0]
        result["evidence"] = f"could not be tried: {type(error).__name__}: {reason}"
    verdict = {True: "holds", False: "does not hold", None: "unknown"}[result["holds"]]
    logging.info("cross restore of %s: %s: %s", other, verdict, result["evidence"])
    return result


def _continue_other_run(setup: Setup, program: CompiledStep, other: epath.Path, stop: StopSignal) -> dict[str, Any]:
    config, api = setup.config, setup.api
    record = read_program_record(other)
    if record is None:
        return {"evidence": f"{other} has no program.json: the run ended before its step was compiled"}
    result = {"implementation": record["implementation"]}
    directory = checkpoint_directory(other)
    if not directory.exists():
        return result | {"evidence": f"{other} has no checkpoints (set enable_checkpointing: true)"}
    reader, source = make_reader(config, directory), make_source(config, setup.mesh)
    try:
        steps = reader.all_steps()
        if not steps:
            return result | {"evidence": f"{directory} has no committed checkpoint"}
        first = min(steps)
        result["restored_step"] = first
        written = setup
        if record["implementation"] != api.name:
            written = declare_state(config, make_api(config.replace(pure_nnx=not config.pure_nnx)), setup.mesh)
        abstract = written.api.to_tree(written.arrays)
        difference = tree_difference(reader, first, abstract)
        if difference:
            return result | {"evidence": f"the trees differ: {difference}"}
        restored = written.api.from_tree(restore(reader, first, abstract))
        restore_position(reader, first, source.iterator)
    finally:
        reader.close()
    metrics_file = Path(record["metrics_file"])
    theirs = read_losses(metrics_file if metrics_file.exists() else other / metrics_file.name)
    state = translate_state(written.api, restored, setup)
    for step in range(first + 1, config.steps):
        if stop.arrived:
            return result | {"evidence": f"stopped by SIGTERM before step {step}"}
        state, metrics = program.run(state, source.next())
        loss = np.float32(jax.device_get(metrics["loss"]))
        result["steps"] = step - first
        if step not in theirs:
            return result | {"evidence": f"the other run's metrics have no step {step}"}
        if loss.tobytes() != theirs[step].tobytes():
            return result | {"holds": False, "evidence": f"step {step}: loss {loss} here, {theirs[step]} there"}
    if record["state"] is None:
        return result | {
            "evidence": "all losses are equal; the other run's program.json has no final state to compare with"
        }
    names = (record["implementation"], api.name)
    done = f"the {names[0]} checkpoint of step {first}, trained on for {result['steps']} steps by {names[1]},"
    return result | _compare_states(digest_state(name_arrays(api, state)), record["state"], done)


def translate_state(writer: Api, state: Any, reader: Setup) -> Any:
    """Return a state of the API `writer` in the containers of `reader.api`, with the same arrays by common name."""
    arrays = name_arrays(writer, state)
    names = iter(name_arrays(reader.api, reader.arrays))
    return reader.api.from_tree(jax.tree.map(lambda _: arrays[next(names)], reader.api.to_tree(reader.arrays)))


def _compare_states(here: dict[str, Any], there: dict[str, Any], done: str) -> dict[str, Any]:
    """Return `holds` and `evidence` for the digests of the final states. done: the experiment in words."""
    if here["digest"] == there["digest"]:
        evidence = f"{done} gives the same losses and the same bits in all {len(here['arrays'])} arrays"
        return {"holds": True, "evidence": evidence}
    arrays = here["arrays"].keys() | there["arrays"].keys()
    differing = sorted(path for path in arrays if here["arrays"].get(path) != there["arrays"].get(path))
    evidence = f"{done} gives the same losses, but {len(differing)} arrays differ at the end, first {differing[0]}"
    return {"holds": False, "evidence": evidence}
