"""Saves and restores a small state below a URL with real Orbax, and exits with 0 if every bit came back."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from etils import epath


def main(url: str) -> None:
    handlers = {"items": ocp.PyTreeCheckpointHandler(use_ocdbt=True, use_zarr3=True)}
    state = {"a": jnp.arange(100_000, dtype=jnp.float32).reshape(100, 1000), "b": {"c": jnp.ones(3) * 0.1}}
    with ocp.CheckpointManager(epath.Path(url), item_names=("items",), item_handlers=handlers) as manager:
        manager.save(0, args=ocp.args.Composite(items=ocp.args.PyTreeSave(state)))
        manager.wait_until_finished()
        restored = manager.restore(0, args=ocp.args.Composite(items=ocp.args.PyTreeRestore(item=state)))["items"]
    pairs = zip(jax.tree.leaves(state), jax.tree.leaves(restored), strict=True)
    sys.exit(0 if all(np.asarray(x).tobytes() == np.asarray(y).tobytes() for x, y in pairs) else 1)


if __name__ == "__main__":
    main(sys.argv[1])
