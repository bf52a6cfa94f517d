"""Trains MaxText's model from given weights on given batches, by MaxText's own loss and training step.

    python maxtext_steps.py FOLDER…

reads from every folder `words.json` (its command line), `weights.npz` (MaxText's names) and `batches.npz` (MaxText's
names, axes S, B, L), and writes `found.npz`: the first batch's loss and gradients, the metrics of S
steps, and the parameters after the first and after the last of them. It runs in MaxText's environment.

If a folder has `gradients.npz` (MaxText's names, a leading axis S), `found.npz` also has the parameters after the first
and after the last of S steps with these gradients instead of the model's: `given-once/…` and `given/…`.

A folder with a file `to-nearest` rounds int8 gradients to the nearest step, where AQT does so at random.
"""

import functools
import json
import sys
from pathlib import Path

import jax
import numpy as np
from aqt.jax.v2 import config as aqt_config
from flax import nnx
from maxtext.trainers.pre_train import train as trainer
from maxtext.utils import maxtext_utils, train_utils

AT_RANDOM = aqt_config.set_stochastic_rounding


def to_nearest(*arguments, **named):
    """Replaces the random rounding by none."""


def name_leaves(tree):
    """{"decoder/layers/…": array} of a tree."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {"/".join(jax.tree_util.keystr((key,), simple=True) for key in path): leaf for path, leaf in leaves}


def params_of(state):
    """The parameters of a training state by name."""
    return name_leaves(nnx.state(state.model, nnx.Param).to_pure_dict())


def fill(state, weights):
    """Put the weights into a training state; each must fit."""
    for path, variable in nnx.to_flat_state(nnx.state(state.model, nnx.Param)):
        value = weights.pop("/".join(map(str, path)))
        assert value.shape == variable.get_value().shape, (path, value.shape)
        variable.set_value(jax.numpy.asarray(value, variable.get_value().dtype))
        nnx.update(state.model, nnx.from_flat_state([(path, variable)]))
    assert not weights, sorted(weights)


def linear_loss(model, config, data, *_, **__):
    """A loss whose gradients are the arrays of `data`, in place of MaxText's loss."""
    params = name_leaves(nnx.state(model, nnx.Param).to_pure_dict())
    assert params.keys() == data.keys(), sorted(params.keys() ^ data.keys())
    loss = sum(jax.numpy.vdot(param, data[name]) for name, param in params.items())
    return loss, {"intermediate_outputs": {}, "xent_sum": loss, "total_weights": 1, "moe_lb_loss": 0.0}


def step_with(gradients, structure, state, config, shardings):
    """The parameters after the first and after the last of MaxText's steps with given gradients."""
    loss_fn, trainer.loss_fn = trainer.loss_fn, linear_loss
    step_fn = jax.jit(functools.partial(trainer.train_step, structure, config, shardings, None))
    found = {}
    for step in range(len(next(iter(gradients.values())))):
        state, _ = step_fn(state, {name: jax.numpy.asarray(array[step]) for name, array in gradients.items()})
        prefix = "given" if step else "given-once"
        found |= {f"{prefix}/{name}": leaf for name, leaf in params_of(nnx.merge(structure, state)).items()}
    trainer.loss_fn = loss_fn
    return found


def run(folder):
    """One job."""
    aqt_config.set_stochastic_rounding = to_nearest if (folder / "to-nearest").exists() else AT_RANDOM
    words = json.loads((folder / "words.json").read_text())
    config, recorder = trainer.initialize(["", *words])
    made = train_utils.setup_train_loop(config, recorder)
    schedule, state, shardings = made[5], made[10], made[2]
    fill(state, dict(np.load(folder / "weights.npz")))
    batches = dict(np.load(folder / "batches.npz"))
    steps = len(batches["inputs"])
    batch_of = lambda step: {name: jax.numpy.asarray(array[step]) for name, array in batches.items()}  # noqa: E731

    graphdef, params, rest = nnx.split(state.model, nnx.Param, ...)

    def loss_of(params, data):
        model = nnx.merge(graphdef, params, rest)
        loss, aux = trainer.loss_fn(model, config, data, None, None, is_train=True)
        return loss, aux["moe_lb_loss"]

    found = {}
    (loss, auxiliary), gradients = jax.jit(jax.value_and_grad(loss_of, has_aux=True))(params, batch_of(0))
    found["loss"], found["moe_lb_loss"] = loss, auxiliary
    found |= {f"gradients/{name}": leaf for name, leaf in name_leaves(gradients.to_pure_dict()).items()}

    structure, state = nnx.split(state)
    if (folder / "gradients.npz").exists():
        found |= step_with(dict(np.load(folder / "gradients.npz")), structure, state, config, shardings)
    step_fn = jax.jit(functools.partial(trainer.train_step, structure, config, shardings, None))
    logged = []
    for step in range(steps):
        state, metrics = step_fn(state, batch_of(step))
        logged.append(metrics["scalar"] | {"learning/current_learning_rate": schedule(step)})
        if step == 0:
            found |= {f"once/{name}": leaf for name, leaf in params_of(nnx.merge(structure, state)).items()}
            found |= {f"state/{name}": np.str_(leaf.dtype) for name, leaf in name_leaves(state).items()}
    found |= {f"params/{name}": leaf for name, leaf in params_of(nnx.merge(structure, state)).items()}
    found |= {name: np.asarray([line[name] for line in logged]) for name in logged[0]}
    total, weights, attention = maxtext_utils.calculate_tflops_training_per_device(config, log=False)
    found["tflops"] = np.asarray([total, weights, attention])
    np.savez(folder / "found.npz", **{name: np.asarray(value) for name, value in found.items()})


if __name__ == "__main__":
    for name in sys.argv[1:]:
        run(Path(name))
