"""Saves one training state with Orbax in the tree of each API, `saver_trees.py FOLDER`: FOLDER/<API>."""

import os
import sys
from pathlib import Path
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp

LAYERS, STEP = 3, 4


def leaf(path: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    seed = np.frombuffer(path.encode(), np.uint8).sum()
    return np.random.default_rng(int(seed)).normal(size=shape).astype(np.float32)


def weights(kind: str, *, width: int = 8) -> dict[str, Any]:
    """A decoder with its layers along axis 1; `kind`: params, mu or nu."""
    return {
        "decoder": {
            "layers": {
                "mlp": {name: {"kernel": leaf(kind + name, (width, LAYERS, 6))} for name in ("wi_0", "wi_1")},
                "norm": {"scale": leaf(kind + "norm", (width, LAYERS))},
            },
            "decoder_norm": {"scale": leaf(kind + "last", (width,))},
        },
        "token_embedder": {"embedding": leaf(kind + "embedding", (32, width))},
    }


def unroll(tree: dict[str, Any], *, as_list: bool = False) -> dict[str, Any]:
    decoder = dict(tree["decoder"])
    layers = decoder.pop("layers")
    each = [jax.tree.map(lambda value, n=n: value[:, n], layers) for n in range(LAYERS)]
    stack = {"layers": each} if as_list else {f"layers_{n}": layer for n, layer in enumerate(each)}
    return {**tree, "decoder": {**decoder, **stack}}


def moments(change: Any = lambda tree: tree) -> dict[str, Any]:
    return {"mu": change(weights("mu")), "nu": change(weights("nu")), "count": jnp.int32(STEP)}


def under_params(tree: dict[str, Any]) -> dict[str, Any]:
    return {"params": tree}


def linen(change: Any = lambda tree: tree, **options: Any) -> dict[str, Any]:
    """MaxText's tree, and ours."""
    chain = [moments(lambda tree: under_params(change(tree))), {}, {"count": jnp.int32(STEP)}]
    return {"params": under_params(change(weights("params", **options))), "opt_state": chain, "step": jnp.int32(STEP)}


def nnx(change: Any = lambda tree: tree) -> dict[str, Any]:
    """Flax's own tree: a model and an optimizer that contains optax's state and its step."""
    chain = [{}, [moments(change), {}, {"count": jnp.int32(STEP)}]]
    return {
        "model": {
            **change(weights("params")),
            "dropout": {"rngs": {"count": jnp.uint32(9), "key": jnp.zeros(2, "uint32")}},
        },
        "optimizer": {"opt_state": chain, "step": jnp.uint32(STEP)},
    }


def nudged() -> dict[str, Any]:
    """Three arrays of Linen's state changed by hand."""
    state = linen()
    decoder = state["params"]["params"]["decoder"]
    decoder["layers"]["mlp"]["wi_0"]["kernel"][5, 2, 1] += 3.0
    decoder["layers"]["mlp"]["wi_0"]["kernel"][0, 0, 0] -= 4.0
    decoder["decoder_norm"]["scale"][7] += 0.5
    state["opt_state"][0]["nu"]["params"]["token_embedder"]["embedding"][31, 7] = np.nan
    return state


def with_aux(state: dict[str, Any]) -> dict[str, Any]:
    """The additional arrays of MaxText's NNX, with random numbers and with quantisation."""
    streams = {"params": {"count": jnp.uint32(0), "key": jnp.zeros(2, "uint32")}}
    aqt = {"AqtEinsum_0": {"AqtDotGeneral_0": {"qrhs": {"frozen": {"scale": leaf("aqt", (4,))}}}}}
    return {**state, "nnx_aux": {"rngs": streams, "decoder": {"layers": {"mlp": aqt}}}}


def lower(state: dict[str, Any]) -> dict[str, Any]:
    """The embedding in bfloat16."""
    embedder = state["params"]["params"]["token_embedder"]
    embedder["embedding"] = jnp.asarray(embedder["embedding"], jnp.bfloat16)
    return state


def main() -> None:
    dialects = {
        "linen": linen(),
        "linen-unrolled": linen(unroll),
        "nnx": nnx(),
        "nnx-unrolled": nnx(lambda tree: unroll(tree, as_list=True)),
        "nnx-aux": with_aux(linen()),
        "nudged": nudged(),
        "bfloat16": lower(linen()),
        "wider": linen(width=16),
    }
    for name, state in dialects.items():
        with ocp.CheckpointManager(Path(sys.argv[1], name, "checkpoints"), item_names=("items",)) as manager:
            for step in (2, STEP) if name == "linen" else (STEP,):
                manager.save(step, args=ocp.args.Composite(items=ocp.args.PyTreeSave(state)))


if __name__ == "__main__":
    main()
