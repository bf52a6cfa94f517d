"""Sixteen public bug reports of JAX trainers, planted, each with the commands that a user types.

Some reports have no line: what is lost or cast is in a file, and a resumed process has other settings.
"""

from benchmarks.plants.plant import Edit, Plant
from benchmarks.plants.reports import (
    ATTENTION,
    CHECKPOINT,
    LOOP,
    LOSS,
    OBJECTIVE,
    OPTIMIZER,
    OURS,
    TWIN,
    report,
)  # fmt: skip

TWINS, LINEN, SHARDING = "invariants --ref . --twin", "model/train/trainer_linen.py", "model/decoder/sharding.py"
SHARE = "share = Share(1 / total_weights(batch), 1 / parts)"
SETUP = "    setup = declare_state(config, make_api(config), mesh)\n"
ADAMW, DECAY = "    return optax.adamw(\n", "        weight_decay=config.adam_weight_decay,\n    )"
SPEC = "jax.sharding.PartitionSpec"
MESHES = "--target cpu-8 --set ici_fsdp_parallelism=4 --set ici_tensor_parallelism=2"


def first(
    name: str, commands: tuple[str, ...], *edits: Edit, line: tuple[str, str] | None = None, names: str = ""
) -> tuple[Plant, ...]:
    """Return a plant for each command of a report."""
    rows = (report(name, "", command, *edits, line=line, names=names) for command in commands)
    return tuple(row._replace(kind="first reports") for row in rows)


FIRST_REPORTS = (
    *first(
        "maxtext 4476: flash attention ignores segments",
        (
            f"{TWINS} texts-alone --case 08_packing --set attention=flash",
            f"{OURS} --only function --case 08_packing --set attention=flash",
        ),
        Edit(
            ATTENTION, "mask = None if segment_ids_BL is None else causal_mask(query_BLHK.shape[1], "
            "segment_ids_BL)[:, None]", "mask = None",
        ),
        line=(ATTENTION, "return jax.nn.dot_product_attention("),
    ),
    *first(
        "jaxformer 28: weight decay by rank, of stacked layers", (f"{TWINS} scan", f"{OURS} --only function"),
        Edit(
            OPTIMIZER, DECAY,
            DECAY.replace("\n    )", "\n        mask=lambda tree: jax.tree.map(lambda x: x.ndim > 1, tree),\n    )"),
        ),
        line=(LINEN, "after = state.apply_gradients("),
    ),
    *first(
        "maxtext 3311: the auxiliary loss of the last part alone", (f"{TWINS} accumulation --case 06_moe",),
        Edit(
            OBJECTIVE, "gradients_of(part, share, ",
            "gradients_of(part, share._replace(part=jnp.where(number == parts - 1, 1 / parts, 0.0)), ",
        ),
        line=(OBJECTIVE, "auxiliary = {name: loss * share.part"),
    ),
    *first(
        "jax 36886: gradients of a shard_map times the devices", (f"{TWINS} mesh-data",),
        Edit(
            OBJECTIVE, '        return {"loss": loss} | losses, gradients\n\n',
            f"        every, psum = {SPEC}(), lambda tree: jax.lax.psum(tree, 'data')\n"
            "        gradients = jax.shard_map(psum, in_specs=every, out_specs=every, check_vma=False)(gradients)\n"
            '        return {"loss": loss} | losses, gradients\n\n',
        ),
        line=(OBJECTIVE, "gradients = jax.shard_map("),
    ),
    *first(
        "transformers 19494: mean over devices of masked means", (f"{TWINS} mesh-data --case 08_packing",),
        Edit(
            OBJECTIVE, "    weights = batch.weights.astype(jnp.float32) * share.weight\n",
            f"    rows, mean = {SPEC}('data'), lambda w: w / jnp.maximum(jnp.sum(w), 1) / jax.lax.axis_size('data')\n"
            "    weights = jax.shard_map(mean, in_specs=rows, out_specs=rows)(batch.weights.astype(jnp.float32))\n",
        ),
        line=(OBJECTIVE, "weights = jax.shard_map("),
    ),
    *first(
        "marin 5022: the process ends before its last save is committed", (f"{OURS} --repeats 1",),
        Edit(CHECKPOINT, "import time\n", "import os\nimport time\n"),
        Edit(CHECKPOINT, "        manager.wait_until_finished()\n        manager.close()", "        os._exit(0)"),
        names="[Cc]heckpoint",
    ),
    *first(
        "maxtext 5060: sharding constraints become no-ops", (f"{OURS} --only function,time {MESHES}",),
        Edit(SHARDING, "    if jax.sharding.get_abstract_mesh().empty:", "    if axes:"),
        line=(LOSS, "logits_BLV = jnp.einsum("),
    ),
    *first(
        "flax 5548: a new function object in each step", (f"{OURS} --only time", f"{OURS} --repeats 1"),
        Edit(
            LOOP, "        on_host = {",
            '        metrics["loss"] = jax.jit(lambda loss: 1.0 * loss)(metrics["loss"])\n        on_host = {',
        ),
        line=(LOOP, 'metrics["loss"] = jax.jit('),
    ),
    *first(
        "asi 2714: a restore casts to bfloat16", (f"{OURS} --repeats 1 --case 14_resume", TWIN),
        Edit(
            CHECKPOINT, "    return restored[ITEM]",
            '    return jax.tree.map(lambda x: x.astype("bfloat16") if x.dtype == "float32" else x, restored[ITEM])',
        ),
        names="float32.*bfloat16|f32.*bf16",
    ),
    *first(
        "the schedule is a step early", (f"{OURS} --only function",),
        Edit(OPTIMIZER, "make_schedule(config),\n", "lambda count: make_schedule(config)(count + 1),\n"),
        line=(OPTIMIZER, "lambda count: make_schedule"),
    ),
    *first(
        "mean of means", (f"{TWINS} accumulation --case 08_packing",),
        Edit(
            OBJECTIVE, "gradients_of(part, share, ",
            "gradients_of(part, Share(1 / (parts * total_weights(part)), 1 / parts), ",
        ),
        line=(OBJECTIVE, "return jax.tree.map(jnp.add, total"),
    ),
    *first(
        "clipping hides a scale of the gradients",
        (f"{TWINS} accumulation", f"{OURS} --only function --case 05_grad_accum"),
        Edit(OBJECTIVE, SHARE, "share = Share(parts / total_weights(batch), 1.0)"),
        line=(OBJECTIVE, "share = Share(parts"),
    ),
    *first(
        "transformers 34191: gradients of parts are summed, not averaged",
        ("compare --only function -- PYTHON accumulation.py --steps 24",),
        Edit("accumulation.py", "a + b / MICRO", "a + b"),
        line=("accumulation.py", "total = jax.tree.map(lambda"),
    ),
    *first(
        "levanter 124: the warm-up counts twice, in a schedule longer than the run",
        (f"{OURS} --only function --set learning_rate_schedule_steps=2000",),
        Edit(OPTIMIZER, "decay = length - warmup\n", "decay = length - 2 * warmup\n"),
        line=(OPTIMIZER, "progress = jnp.asarray(step)"),
    ),
    *first(
        "nanotron 233: a resumed run begins another schedule", (TWIN,),
        Edit(
            LOOP, SETUP,
            "    if checkpoint.has_steps(config, run_directory):\n"
            '        config = config.model_copy(update={"learning_rate": 2 * config.learning_rate})\n' + SETUP,
        ),
        names="rate|optimizer.py",
    ),
    *first(
        "transformers 20855: a state of the optimizer that only one arm has", (f"{OURS} --only function",),
        Edit(OPTIMIZER, ADAMW, "    return optax.chain(optax.apply_every(2), optax.adamw(\n"),
        Edit(OPTIMIZER, DECAY, DECAY + ")"),
        line=(LINEN, "after = state.apply_gradients("),
    ),
)  # fmt: skip
