"""A small trainer that saves with pickle and NumPy, and restores with the fault that its command names.

Words: the folder of its checkpoints, and the fault; "" restores what was saved.
"""

import pickle
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax

FOLDER, FAULT = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""
KEY = jax.random.key(0)
X = np.asarray(jax.random.normal(KEY, (64, 8)))
Y = X @ np.arange(8.0, dtype=np.float32)
OPTIMIZER = optax.adam(0.01)


def make_state():
    keys = jax.random.split(KEY, 4)
    params = {
        "embed": jax.random.normal(keys[0], (8, 8)),
        "gate": jax.random.normal(keys[1], (8, 8)),
        "layers": jax.random.normal(keys[2], (4, 8, 8)) / 3,
        "head": jnp.ones(8),
    }
    rng = jax.random.key_data(keys[3])
    return {"params": params, "opt_state": OPTIMIZER.init(params), "step": jnp.int32(0), "rng": rng}


def loss_of(params, x, y, noise):
    hidden = x @ params["embed"] * jax.nn.sigmoid(x @ params["gate"]) + 0.01 * noise
    for layer in range(4):
        hidden = hidden + jnp.tanh(hidden @ params["layers"][layer])
    return jnp.mean((hidden @ params["head"] - y) ** 2)


@jax.jit
def train_step(state, x, y):
    rng, now = jax.random.split(jax.random.wrap_key_data(state["rng"]))
    noise = jax.random.normal(now, x.shape)
    loss, gradients = jax.value_and_grad(loss_of)(state["params"], x, y, noise)
    updates, opt_state = OPTIMIZER.update(gradients, state["opt_state"], state["params"])
    params = optax.apply_updates(state["params"], updates)
    return {"params": params, "opt_state": opt_state, "step": state["step"] + 1, "rng": jax.random.key_data(rng)}, loss


def save(state, step):
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{step}.weights").write_bytes(pickle.dumps(jax.tree.map(np.asarray, state["params"])))
    rest = {key: state[key] for key in ("opt_state", "step", "rng")}
    if step < 6:  # the run is ended before the rest of its last save is written
        (FOLDER / f"{step}.rest").write_bytes(pickle.dumps(jax.tree.map(np.asarray, rest)))


def restore(state):
    weights = sorted(FOLDER.glob("*.weights"))
    if not weights:
        return state
    step = 6 if FAULT == "unfinished save" else 4
    params = pickle.loads((FOLDER / f"{step}.weights").read_bytes())
    rest = pickle.loads((FOLDER / "4.rest").read_bytes())
    match FAULT:
        case "zeros":
            params["gate"] = np.zeros_like(params["gate"])
        case "random stream":
            rest["rng"] = np.asarray(state["rng"])
        case "cast":
            params["head"] = params["head"].astype(jnp.bfloat16).astype(np.float32)
        case "moments":
            rest["opt_state"] = state["opt_state"]
        case "counter":
            rest["step"] = np.int32(0)
        case "swapped":
            params["embed"], params["gate"] = params["gate"], params["embed"]
        case "layers swapped":
            params["layers"] = params["layers"][np.array([0, 2, 1, 3])]
        case "transposed":
            params["embed"] = params["embed"].T
        case "untouched":
            params["head"] = np.asarray(state["params"]["head"])
        case "scaled":
            params["head"] = params["head"] * 0.5
    return jax.tree.map(jnp.asarray, {"params": params, **rest})


state = restore(make_state())
for number in range(int(state["step"]), 7):
    at = number % 4 * 16
    state, loss = train_step(state, X[at : at + 16], Y[at : at + 16])
    if (number + 1) % 2 == 0:
        save(state, number + 1)
