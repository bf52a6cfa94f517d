"""Twenty public bug reports of JAX trainers and libraries, planted, with the command that a user types.

They were chosen, with their right words and lines, before any was tried. Other reports: `benchmarks.reported_changes`.
"""

from benchmarks.plants.plant import DIFFERENT, Edit, Plant

ATTENTION, LAYERS, LOSS = "model/decoder/attention.py", "model/decoder/layers.py", "model/train/loss.py"
LOOP, STEP, OBJECTIVE = "model/train/loop.py", "model/train/step.py", "model/train/objective.py"
STACK, CHECKPOINT, OPTIMIZER = "model/decoder/stack_linen.py", "model/train/checkpoint.py", "model/train/optimizer.py"
CLASSIFIER = "classifier.py"
OURS, TWIN = "compare main-vs-branch", "invariants --ref . --twin resumed"
TYPED = "-- PYTHON classifier.py --steps 36 --out {out}"
WRONG = frozenset({DIFFERENT})
RESTORED = "state = setup.api.from_tree(checkpoint.restore(manager, latest, setup.api.to_tree(setup.arrays)))"


def report(
    name: str, kind: str, command: str, *edits: Edit, line: tuple[str, str] | None = None, names: str = ""
) -> Plant:
    """Return a planted report; the right word is *different*. line: of the planted file, by its text."""
    file, text = line or ("", "")
    trainer = "ours" if (line and line[0].startswith("model/")) or edits[0].file.startswith("model/") else "stranger"
    trainer = "loops" if edits[0].file == "accumulation.py" else trainer
    return Plant(
        f"report: {name}", f"reports: {kind}", edits, names, name, command, WRONG, trainer=trainer, file=file, line=text
    )


NUMBERS = (
    report(
        "axlearn 842: key heads of groups are tiled, not repeated", "numbers",
        f"{OURS} --only function --case 17_grouped",
        Edit(
            ATTENTION, "jnp.repeat(x_BSGK, heads // x_BSGK.shape[2], axis=2)",
            "jnp.tile(x_BSGK, (1, 1, heads // x_BSGK.shape[2], 1))",
        ),
        line=(ATTENTION, "jnp.tile(x_BSGK"),
    ),
    report(
        "optax 1020: the loss's normaliser is rounded to bfloat16", "numbers", f"{OURS} --only function",
        Edit(
            LOSS, "jax.nn.logsumexp(logits_BLV.astype(jnp.float32), axis=-1)", "jax.nn.logsumexp(logits_BLV, axis=-1)"
        ),
        Edit(LOSS, "[:, :, 0].astype(jnp.float32)", "[:, :, 0]"),  # else XLA leaves the normaliser in float32
        line=(LOSS, "log_normalizer_BL = jax.nn"),
    ),
    report(
        "equinox 316: all texts of a batch drop the same units", "numbers",
        f"{OURS} --only function --case 03_dropout",
        Edit(
            LAYERS, "keep, (batch * width,)).reshape(\n        batch, 1, width\n    )",
            "keep, (width,)).reshape(\n        1, 1, width\n    )",
        ),
        line=(LAYERS, "kept_B1E = jax.random"),
    ),
    report(
        "optax 1760: smoothed labels give a share to padded classes", "numbers",
        f"compare --only function {TYPED}",
        Edit(CLASSIFIER, "+ 0.1 * REAL / CLASSES", "+ 0.1 / PADDED"),
        line=(CLASSIFIER, "smoothed = 0.9"),
    ),
    report(
        "flax 1254: the first call of a model updates its running statistics", "numbers",
        f"compare --only function {TYPED}",
        Edit(
            CLASSIFIER, '"variance": jnp.ones(WIDTH)}\n',
            '"variance": jnp.ones(WIDTH)}\n    _, stats = classify(params, stats, make_rows(ROWS, seed=1)[0], '
            "training=True)\n",
        ),
        line=(CLASSIFIER, "_, stats = classify(params, stats, make_rows"),
    ),
)  # fmt: skip
COSTS = (
    report(
        "mujoco 2306: a counter of Python's type, so that the step compiles twice", "time and memory",
        f"compare --only time {TYPED}",
        Edit(CLASSIFIER, '"time": jnp.float32(0.0)', '"time": 0.0'),
        line=(CLASSIFIER, 'return {"params": params, "stats": stats, "opt_state": optimizer.init'),
    ),
    report(
        "numpyro 2247: the loss is fetched in every step", "time and memory", f"compare --only time {TYPED}",
        Edit(CLASSIFIER, "losses.append(loss)", "losses.append(jax.device_get(loss))"),
        line=(CLASSIFIER, "losses.append(jax.device_get"),
    ),
    report(
        "axlearn 1171: nothing is recomputed inside of a scan", "time and memory",
        f"{OURS} --only time --set remat_policy=full",
        Edit(STACK, "remat(config, layer_type, prevent_cse=False),", "layer_type,  # as it is"),
        line=(STACK, "# as it is"),
    ),
    report(
        "Olmax 37: the step's state is not donated", "time and memory", f"{OURS} --only time",
        Edit(STEP, "jax.jit(train_step, donate_argnums=0, ", "jax.jit(train_step, "), line=(STEP, "jitted = jax.jit("),
    ),
    report(
        "flax 505: Adafactor does not factor its moments", "time and memory", f"compare --only function,time {TYPED}",
        Edit(CLASSIFIER, "min_dim_size_to_factor=8", "min_dim_size_to_factor=128"),
        line=(CLASSIFIER, "optimizer = optax.adafactor"),
    ),
)  # fmt: skip
HOST = (
    report(
        "flax 264: an evaluation drops the last rows", "data and host", f"compare --repeats 1 {TYPED}",
        Edit(CLASSIFIER, "for n in range(0, len(x), ROWS)]", "for n in range(0, len(x) - missing - ROWS + 1, ROWS)]"),
        line=(CLASSIFIER, "right = [count_right"),
    ),
    report(
        "transformers 17863: the last batch of an epoch has another shape", "data and host",
        f"compare --only time {TYPED}",
        Edit(CLASSIFIER, "range(0, len(x) - ROWS + 1, ROWS)", "range(0, len(x), ROWS)"),
        line=(CLASSIFIER, "starts = range("),
    ),
    report(
        "scvi-tools 1791: the global step is not counted", "data and host", f"compare --only function {TYPED}",
        Edit(CLASSIFIER, "        global_step += 1\n", ""), line=(CLASSIFIER, "state, loss = train_step("),
    ),
    report(
        "jax-dataloader 37: a resumed run reads its first batches again", "data and host", f"{TWIN} --case 08_packing",
        Edit(LOOP, "    checkpoint.restore_position(manager, latest, source.iterator)\n", ""),
        names="batch|data|inputs",
    ),
    report(
        "paxml 8: the logged loss is that of one part of the batch", "data and host",
        "compare --repeats 1 -- PYTHON accumulation.py --steps 24",
        Edit("accumulation.py", "{sum(map(float, losses)) / MICRO:.6f}", "{float(loss):.6f}"),
        line=("accumulation.py", 'print(f"completed step'),
    ),
)  # fmt: skip
RESTORES = (
    report(
        "maxdiffusion 484: the restored optimizer's state is discarded", "checkpoints", TWIN,
        Edit(LOOP, RESTORED, f"{RESTORED}\n    state = state._replace(opt_state=init_state(setup).opt_state)"),
        names="opt_state|mu|nu|count",
    ),
    report(
        "levanter 378: a resumed run draws the dropout of its first steps", "checkpoints", f"{TWIN} --case 03_dropout",
        Edit(
            LOOP, "    setup = declare_state(config, make",
            "    folder = run_directory / 'checkpoints'\n"
            "    saved = [int(x.name) for x in folder.iterdir() if x.name.isdigit()] if folder.exists() else []\n"
            "    optimizer.FIRST = max(saved, default=-1) + 1\n"
            "    setup = declare_state(config, make",
        ),
        Edit(
            LOOP, "from model.train import checkpoint, report\n",
            "from model.train import checkpoint, optimizer, report\n",
        ),
        Edit(OPTIMIZER, "def schedule_steps(", "FIRST = 0  # set by the loop\n\n\ndef schedule_steps("),
        Edit(
            OBJECTIVE, "jax.random.key(config.init_weights_seed), step)",
            "jax.random.key(config.init_weights_seed), step - optimizer.FIRST)",
        ),
        Edit(
            OBJECTIVE, "from model.train.batch import",
            "from model.train import optimizer\nfrom model.train.batch import",
        ),
        line=(OBJECTIVE, "return jax.random.fold_in(jax.random.key(config.init"),
    ),
    report(
        "flowgym 51: the newest checkpoint is deleted, since its loss is no better", "checkpoints",
        f"{OURS} --repeats 1",
        Edit(
            CHECKPOINT, "preservation_policy=checkpoint_managers.LatestN(n=None)",
            'preservation_policy=checkpoint_managers.BestN(n=1, reverse=True, get_metric_fn=lambda x: x["loss"])',
        ),
        Edit(
            CHECKPOINT, "args=ocp.args.Composite(**items), force=force)",
            'args=ocp.args.Composite(**items), force=force, metrics={"loss": float(step)})',
        ),
        names="[Cc]heckpoint",
    ),
    report(
        "ferminet 105: the optimizer's state is restored as a list", "checkpoints",
        f"{OURS} --repeats 1 --case 14_resume",
        Edit(
            LOOP, "    if change := describe_change(saved, name_arrays(api, restored)):",
            "    restored = restored._replace(opt_state=list(restored.opt_state))\n"
            "    if change := describe_change(saved, name_arrays(api, restored)):",
        ),
        names="opt_state|list",
    ),
    report(
        "equinox 172: running statistics are not saved", "checkpoints",
        "compare stranger-classifier --repeats 1",
        Edit(
            CLASSIFIER, "args=ocp.args.StandardSave(state))",
            'args=ocp.args.StandardSave({**state, "stats": jax.tree.map(jnp.zeros_like, state["stats"])}))',
        ),
        names="stats",
    ),
)  # fmt: skip

REPORTS = (*NUMBERS, *COSTS, *HOST, *RESTORES)
