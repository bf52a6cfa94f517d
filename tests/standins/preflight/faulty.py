"""A training step of forty lines, compiled for a small TPU slice, whole or with one fault: `faulty.py FAULT FOLDER`.

It writes the files of `python -m model.compile`. The samples in `tests/samples/preflight` are its output.
"""

import gzip
import json
import os
import sys
import time
from pathlib import Path

os.environ |= {"JAX_PLATFORMS": "cpu", "TPU_SKIP_MDS_QUERY": "1", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}

import jax
import jax.numpy as jnp
from jax.experimental import topologies
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from model.compile_record import sha256, strip_hlo, strip_stablehlo

LAYERS, WIDTH, HIDDEN, VOCABULARY, BATCH, LENGTH, CHUNKS = 4, 256, 1024, 2048, 8, 256, 4
SHAPES = {
    "embedding": (VOCABULARY, WIDTH),
    "layers/wi": (LAYERS, WIDTH, HIDDEN),
    "layers/wm": (LAYERS, HIDDEN, HIDDEN),
    "layers/wo": (LAYERS, HIDDEN, WIDTH),
    "head": (WIDTH, VOCABULARY),
}
# the axis that is sharded
SPLIT = {"embedding": 0, "layers/wi": 1, "layers/wm": 1, "layers/wo": 2, "head": 0}
FAULTS = ("none", "gather-in-loop", "no-donation", "float32-matmul", "no-remat", "wrong-sharding")


def make_step(fault, mesh):
    everywhere = NamedSharding(mesh, PartitionSpec())

    split = NamedSharding(mesh, PartitionSpec("fsdp"))

    def layer(x, weights):
        kind = jnp.float32 if fault == "float32-matmul" else jnp.bfloat16
        precision = "highest" if fault == "float32-matmul" else "default"
        with jax.named_scope("layers"):
            x = jax.lax.with_sharding_constraint(x, split)
            hidden = jax.nn.silu(jnp.einsum("ble,ef->blf", x, weights["layers/wi"].astype(jnp.bfloat16)))
            hidden = jax.nn.silu(jnp.einsum("ble,ef->blf", hidden, weights["layers/wm"].astype(jnp.bfloat16)))
            hidden = jax.lax.with_sharding_constraint(hidden, split)
            hidden, wo = hidden.astype(kind), weights["layers/wo"].astype(kind)
            out = jnp.einsum("blf,fe->ble", hidden, wo, precision=precision)
        return x + out.astype(jnp.bfloat16), None

    def loss(params, tokens, targets):
        x = params["embedding"].astype(jnp.bfloat16)[tokens]
        stacked = {name: params[name] for name in params if name.startswith("layers/")}
        x, _ = jax.lax.scan(layer if fault == "no-remat" else jax.checkpoint(layer), x, stacked)
        head = params["head"].astype(jnp.bfloat16)
        with jax.named_scope("head"):
            whole = jax.lax.with_sharding_constraint(head, everywhere)

        @jax.checkpoint
        def chunk(total, part):
            x, targets = part
            x = jax.lax.with_sharding_constraint(x, split)
            with jax.named_scope("head"):
                weights = whole
                if fault == "gather-in-loop":  # depends on the loop, so that it cannot be hoisted
                    weights, x = jax.lax.optimization_barrier((head, x))
                    weights = jax.lax.with_sharding_constraint(weights, everywhere)
                logits = jnp.einsum("ble,ev->blv", x, weights).astype(jnp.float32)
            return total - jnp.sum(jax.nn.log_softmax(logits) * jax.nn.one_hot(targets, VOCABULARY)), None

        def cut(whole):
            return jnp.moveaxis(whole.reshape(BATCH, CHUNKS, LENGTH // CHUNKS, *whole.shape[2:]), 1, 0)

        return jax.lax.scan(chunk, jnp.float32(0), (cut(x), cut(targets)))[0]

    def step(state, tokens, targets):
        value, gradients = jax.value_and_grad(loss)(state["params"], tokens, targets)
        moment = jax.tree.map(lambda old, new: 0.9 * old + new, state["moment"], gradients)
        params = jax.tree.map(lambda old, new: old - 1e-3 * new, state["params"], moment)
        return {"params": params, "moment": moment}, value

    return step


def main(fault, folder):
    assert fault in FAULTS, FAULTS
    described = topologies.get_topology_desc(
        platform="tpu",
        topology_name="v6e:2x2",
        chip_config_name="default",
        chips_per_host_bounds=(2, 2, 1),
        num_slices=1,
    )
    mesh = Mesh(described.devices, ("fsdp",), axis_types=(AxisType.Auto,))

    def place(name, shape):
        axes = [None] * len(shape)
        if not (fault == "wrong-sharding" and name.startswith("layers/")):
            axes[SPLIT[name]] = "fsdp"
        return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, PartitionSpec(*axes)))

    arrays = {name: place(name, shape) for name, shape in SHAPES.items()}
    state = {"params": arrays, "moment": dict(arrays)}
    batch = jax.ShapeDtypeStruct((BATCH, LENGTH), jnp.int32, sharding=NamedSharding(mesh, PartitionSpec("fsdp")))
    kept = jax.tree.map(lambda leaf: leaf.sharding, state)
    options = {} if fault == "no-donation" else {"donate_argnums": 0}
    jitted = jax.jit(make_step(fault, mesh), out_shardings=(kept, NamedSharding(mesh, PartitionSpec())), **options)
    began = time.monotonic()
    with jax.set_mesh(mesh):
        sys.stdout.write("lowering\n")
        lowered = jitted.lower(state, batch, batch)
        between, cpu = time.monotonic(), time.process_time()
        sys.stdout.write("compiling for v6e:2x2, 4 devices\n")
        compiled = lowered.compile()
    stats, text = compiled.memory_analysis(), compiled.as_text()
    names = ("argument", "output", "temp", "alias", "host_argument", "host_output", "host_temp", "generated_code")
    memory = {name: getattr(stats, f"{name}_size_in_bytes") for name in names}
    memory["total"] = memory["argument"] + memory["output"] + memory["temp"] - memory["alias"]
    inputs = [(f"{group}/{name}", leaf) for group, leaves in state.items() for name, leaf in leaves.items()]
    record = {
        "version": 1, "topology": "v6e:2x2", "devices": 4, "hbm_bytes": int(31.24 * 2**30), "ok": True, "error": None,
        "memory": memory,
        "arrays": [
            {
                "path": path, "shape": leaf.shape, "dtype": str(leaf.dtype), "sharding": str(leaf.sharding.spec),
                "bytes_per_device": 4 * int(jnp.prod(jnp.array(leaf.sharding.shard_shape(leaf.shape)))),
            }
            for path, leaf in inputs
        ],
        "lower_seconds": between - began,
        "compile_seconds": time.monotonic() - between,
        "compile_cpu_seconds": time.process_time() - cpu,
        "software": {"jax": jax.__version__},
        "fingerprints": {
            "lowered": sha256(strip_stablehlo(lowered.as_text())), "optimised": sha256(strip_hlo(text)),
        },
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (("lowered.mlir.gz", lowered.as_text()), ("optimised.hlo.gz", text)):
        (folder / name).write_bytes(gzip.compress(content.encode(), 9, mtime=0))
    (folder / "compile.json").write_text(json.dumps(record, indent=1) + "\n")
    sys.stdout.write("done\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
