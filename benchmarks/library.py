"""Judges edits of the trainer that only round, and planted changes, by the library: both steps in one process.

    python -m benchmarks.library [NAME]…

NAME selects the edits whose name contains it. Each edit is one of `benchmarks.same_function`, on one device; those that
need several are left out. Exit status: 0 if the library is right on every one, 1 if not.
"""

import importlib
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import maxview_probe as mv
from benchmarks import benign_changes
from benchmarks.machine import describe_machine
from benchmarks.planted_changes import PLANTED, ROOT, PlantedChange, plant
from benchmarks.same_function import plan_of

PACKAGES = ("model", "configs")
MODULES: list[dict[str, Any]] = []  # of the trees: their functions are in use


class Step(NamedTuple):
    """The training step of one tree, as a function of flat arrays by name."""

    run: Callable[[dict[str, Any], dict[str, Any]], Any]
    state: dict[str, Any]
    batch: dict[str, Any]


def load(tree: Path, values: dict[str, Any]) -> Step:
    """Return the step of the trainer's source in `tree`. values: of its config."""
    ours = [name for name in sys.modules if name.partition(".")[0] in PACKAGES]
    kept = {name: sys.modules.pop(name) for name in ours}
    sys.path.insert(0, str(tree))
    try:
        names = (
            "configs.schema",
            "model.train.api",
            "model.train.batch",
            "model.train.data_source",
            "model.train.step",
        )
        schema, api, batch, source, step = (importlib.import_module(name) for name in names)
        sharding = importlib.import_module("model.decoder.sharding")
        config = schema.TrainConfig.model_validate(values)
        mesh = sharding.make_mesh(config)
        setup = step.declare_state(config, api.make_api(config), mesh)
        first = step.init_state(setup)
        given = source.make_source(config, mesh).next()
    finally:
        sys.path.remove(str(tree))
        MODULES.append(
            {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] in PACKAGES}
        )
        sys.modules.update(kept)
    paths, structure = jax.tree_util.tree_flatten_with_path(first)
    keys = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in paths]

    def run(state: dict[str, Any], data: dict[str, Any]) -> Any:
        arrays = jax.tree.unflatten(structure, [state[key] for key in keys])
        fields = dict.fromkeys(batch.Batch._fields) | data
        trained, metrics = setup.api.train_step(arrays, batch.Batch(**fields))
        return jax.tree.leaves(trained), metrics

    return Step(
        run,
        {key: jnp.asarray(leaf) for key, (_, leaf) in zip(keys, paths, strict=True)},
        {name: jnp.asarray(value) for name, value in given._asdict().items() if value is not None},
    )


def judge(change: PlantedChange, folder: Path) -> tuple[str, float, str]:
    """Return the library's word, its seconds, and its first line."""
    config = dict(plan_of(change.case, change.set, change.target, folder).config)
    old = load(ROOT, config)
    new = load(plant(change, folder / "tree"), config)
    began = time.monotonic()
    try:
        found = mv.same_function(old.run, lambda *given: new.run(*given), old.state, old.batch)
    except mv.CannotCompare as error:
        return "not evaluated", time.monotonic() - began, str(error)
    return "same" if found else "another", time.monotonic() - began, str(found).splitlines()[0]


def main(names: Sequence[str]) -> int:
    """Print a row per edit, then the errors."""
    print(describe_machine())
    edits = [(change, "same") for change in benign_changes.EDITS] + [(change, "another") for change in PLANTED]
    wrong, total, left_out = 0, 0, 0
    for change, expected in edits:
        if names and not any(name in change.name for name in names):
            continue
        if change.target != "cpu":
            left_out += 1
            continue
        with tempfile.TemporaryDirectory() as folder:
            word, seconds, line = judge(change, Path(folder))
        total += 1
        wrong += word != expected
        mark = "" if word == expected else "WRONG "
        print(f"{mark:6}{change.name:55.55} {word:13} {seconds:5.1f} s  {line}", flush=True)
    print(f"{total - wrong} of {total} right; {left_out} for several devices left out")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
