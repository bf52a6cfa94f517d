"""Plants in maxview's own trainer. The runs have 20 steps of 4 × 64 tokens of the tiny model, in `01_base`."""

from benchmarks.plants.plant import (
    API,
    CALM,
    DIFFERENT,
    FUNCTION,
    INSIDE,
    OUTSIDE,
    TRAINED,
    TWICE,
    UNKNOWN,
    Edit,
    Plant,
    Rename,
    plant_all,
)  # fmt: skip

OPTIMIZER, OBJECTIVE, LOSS = "model/train/optimizer.py", "model/train/objective.py", "model/train/loss.py"
LAYERS, ATTENTION, DECODER = "model/decoder/layers.py", "model/decoder/attention.py", "model/decoder/decoder_linen.py"
EXPERTS, PRODUCTS, TRAINER = "model/decoder/experts.py", "model/decoder/contraction.py", "model/train/trainer_linen.py"
LOOP, STEP, DATA = "model/train/loop.py", "model/train/step.py", "model/train/data_source.py"
EVALUATION, CORPUS = "model/train/evaluation.py", "model/train/corpus.py"

RATE = "return peak * share + final * (1.0 - share)"  # the counter `step` begins at the end of the warm-up
FACTOR = "factor = jnp.minimum(1.0, limit / norm)"
NORM = "    norm, limit = optax.tree.norm(gradients)"
SCALED = "lambda x: x * factor.astype(x.dtype)"
CLIPPED = "        clipped = clip(self.config, gradients)"
NEXT = "    def next(self) -> Batch:\n        return self.batch"
FOREVER = "a run of more steps computes with another rate; no planned step does"
BEHIND = "no planned state reaches the guard; a state behind it gets another update"
UNREAD = "another case computes another result; this case does not run the line"


def rate(factor: str) -> str:
    """Return the line of the schedule with a factor."""
    return f"return {factor} * ({RATE.removeprefix('return ')})"


def from_call(number: int, batch: str) -> str:
    """Return a data source that serves another batch from a call on."""
    return f"""    served = 0

    def next(self) -> Batch:
        self.served += 1
        if self.served < {number}:
            return self.batch
        return {batch}"""


def late(first: int) -> str:
    """Return a factor that is 0.5 from a step on."""
    return f"jnp.where(jnp.asarray(step) >= {first}, 0.5, 1.0)"


LATER = (
    *plant_all(
        "later steps",
        (
            (f"rate × 0.5 from step {first} on", OPTIMIZER, RATE, rate(late(first)), FOREVER)
            for first in (50, 300, 10_000)
        ),
        searched=True,
    ),
    *plant_all(
        "later steps",
        (
            (
                "the counter in int8", OPTIMIZER, "jnp.asarray(step) / (decay",
                "jnp.asarray(step).astype(jnp.int8) / (decay",
                "int8 is negative from step 128 on",
            ),
        ),
    ),
    *plant_all(
        "later steps",
        (
            (
                "dropout repeats after 128 steps", OBJECTIVE, "jax.random.key(config.init_weights_seed), step)",
                "jax.random.key(config.init_weights_seed), step % 128)", "step 128 drops the units of step 0",
            ),
        ),
        command=f"{FUNCTION} --case 03_dropout",
    ),
)  # fmt: skip

GUARDS = (
    *plant_all(
        "guards",
        (
            (
                f"no update if the norm exceeds {limit}", OPTIMIZER, FACTOR,
                f"factor = jnp.where(norm > {limit}.0, 0.0, jnp.minimum(1.0, limit / norm))", BEHIND,
            )
            for limit in (10, 1000, 5000)
        ),
        searched=True,
    ),
    *plant_all(
        "guards",
        (
            (
                "no update if the norm is NaN", OPTIMIZER, SCALED,
                "lambda x: jnp.where(jnp.isfinite(norm), x * factor.astype(x.dtype), 0.0)",
                "after a NaN the baseline's weights are NaN, the branch's are kept",
            ),
            (
                "gradients clamped to ±5", OPTIMIZER, NORM,
                f"    gradients = jax.tree.map(lambda x: jnp.clip(x, -5.0, 5.0), gradients)\n{NORM}", BEHIND,
            ),
            (
                "no update if the loss exceeds 50", TRAINER, CLIPPED,
                '        calm = losses["loss"] <= 50.0\n        gradients = jax.tree.map(lambda x: jnp.where(calm, '
                'x, 0.0), '
                f"gradients)\n{CLIPPED}", BEHIND,
            ),
            (
                "no update if the weights' norm exceeds 1e5", TRAINER, CLIPPED,
                "        square = sum(jnp.sum(x * x) for x in jax.tree.leaves(state.params))\n"
                f"        gradients = jax.tree.map(lambda x: jnp.where(square < 1e10, x, 0.0), gradients)\n{CLIPPED}",
                BEHIND,
            ),
        ),
        searched=True,
    ),
    *plant_all(
        "guards",
        (
            (
                "a batch without weight gives 0 in place of NaN", OBJECTIVE, "share = Share(1 / total_weights(batch),",
                "share = Share(1 / jnp.maximum(total_weights(batch), 1),", "0 · ∞ is NaN, 0 · 1 is 0",
            ),
            (
                "token 7 does not count in the loss", OBJECTIVE, "batch.weights.astype(jnp.float32) * share.weight",
                "batch.weights.astype(jnp.float32) * share.weight * (batch.targets != 7)",
                "the synthetic batch has no token 7",
            ),
            (
                "logits clamped to ±1000", LOSS, 'logits_BLV = jnp.einsum("BLE,EV->BLV", x_BLE, kernel_EV)',
                'logits_BLV = jnp.clip(jnp.einsum("BLE,EV->BLV", x_BLE, kernel_EV), -1000.0, 1000.0)', BEHIND,
            ),
            (
                "attention's logits clamped to ±500, inside of the layers' loop", ATTENTION,
                "jnp.where(mask_BLS[:, None], logits_BHLS, MASKED)",
                "jnp.where(mask_BLS[:, None], jnp.clip(logits_BHLS, -500.0, 500.0), MASKED)", BEHIND,
            ),
            (
                "mean square at most 1e6, inside of the layers' loop", LAYERS, "jax.lax.rsqrt(mean_square + epsilon)",
                "jax.lax.rsqrt(jnp.minimum(mean_square, 1e6) + epsilon)", BEHIND,
            ),
            (
                "a guard in a backward rule", ATTENTION,
                "    mean_BHL = jnp.sum(grad_attended_BLHK.astype(jnp.float32)",
                "    grad_weights_BHLS = jnp.where(jnp.abs(grad_weights_BHLS) > 1e4, 0.0, grad_weights_BHLS)\n"
                "    mean_BHL = jnp.sum(grad_attended_BLHK.astype(jnp.float32)", BEHIND,
            ),
        ),
    ),
    *plant_all(
        "range of a type",
        (
            (
                "activations pass through float16", DECODER, 'hidden_BLF = jax.nn.silu(widen("wi_0")) * widen("wi_1")',
                'hidden_BLF = (jax.nn.silu(widen("wi_0")) * widen("wi_1")).astype(jnp.float16).astype(cfg.dtype)',
                "float16 ends at 65504; float64 does not",
            ),
            (
                "logsumexp without its maximum", LOSS, "jax.nn.logsumexp(logits_BLV.astype(jnp.float32), axis=-1)",
                "jnp.log(jnp.sum(jnp.exp(logits_BLV.astype(jnp.float32)), axis=-1))",
                "float32's exp is infinite from 89 on, float64's from 710 on",
            ),
            (
                "softmax without its maximum", ATTENTION,
                "weights_BHLS = jax.nn.softmax(jnp.where(mask_BLS[:, None], logits_BHLS, MASKED), axis=-1)",
                "weights_BHLS = jnp.exp(jnp.where(mask_BLS[:, None], logits_BHLS, MASKED))\n"
                "    weights_BHLS /= jnp.sum(weights_BHLS, axis=-1, keepdims=True)",
                "float32's exp is infinite from 89 on, float64's from 710 on",
            ),
        ),
    ),
)  # fmt: skip

ANOTHER_CASE = (
    *plant_all(
        "another case",
        (
            ("load-balance loss × 1.01", EXPERTS, "* count**2 *", "* 1.01 * count**2 *", UNREAD),
            (
                "capacity of the experts rounded down", EXPERTS, "capacity = math.ceil(", "capacity = math.floor(",
                UNREAD,
            ),
            ("127 becomes 126 in int8", PRODUCTS, "qvalue, -127))", "qvalue, -126))", UNREAD),
            ("scale of latent attention", LAYERS, "(nope + rope) ** -0.5", "nope ** -0.5", UNREAD),
            (
                "kept units divided by 0.905", LAYERS, ".astype(jnp.float32) / keep)",
                ".astype(jnp.float32) / (keep + 0.005))", UNREAD,
            ),
            (
                "accumulator starts at 1e-3", OBJECTIVE, "jnp.zeros(x.shape, x.dtype)",
                "jnp.full(x.shape, 1e-3, x.dtype)", UNREAD,
            ),
            (
                "microbatches lose a row", "model/train/batch.py", "x.reshape(-1, parts, *x.shape[1:]), 1, 0)",
                "x.at[0].set(x[1]).reshape(-1, parts, *x.shape[1:]), 1, 0)", UNREAD,
            ),
            (
                "evaluation counts the padding", OBJECTIVE,
                "loss, parts = objective(output, batch, Share(1 / weights, 1.0))",
                "loss, parts = objective(output, batch, Share(1 / batch.weights.size, 1.0))", UNREAD,
            ),
            ("texts in another order", CORPUS, ".seed(seed).shuffle()", ".seed(seed + 1).shuffle()", UNREAD),
            (
                "a text sees the texts before it", ATTENTION, "segment_ids_BL[:, :, None] == ",
                "segment_ids_BL[:, :, None] >= ", UNREAD,
            ),
            ("scale of flash attention", ATTENTION, "mask=mask, scale=1.0,", "mask=mask, scale=0.9,", UNREAD),
            (
                "order of unrolled layers", "model/decoder/stack_linen.py", 'name=f"{group.name}_{i}")',
                'name=f"{group.name}_{group.layers - 1 - i}")', UNREAD,
            ),
            (
                "keys of a pipeline's microbatches", "model/decoder/pipeline.py",
                "layers.fold_in(context.key, microbatch)", "layers.fold_in(context.key, 0)", UNREAD,
            ),
            (
                "update of NNX alone", "model/train/trainer_nnx.py",
                "state.optimizer.update(state.model, clipped.gradients)",
                "state.optimizer.update(state.model, gradients)", UNREAD,
            ),
            (
                "restored state of step 4", LOOP, "jax.tree.map(lambda array: array.delete(), state)",
                "jax.tree.map(lambda array: array.delete(), state)\n    step = 0", UNREAD,
            ),
        ),
    ),
    *plant_all(
        "a line that ran, whose changed part did not",
        (
            (
                "repeat becomes tile for grouped heads", ATTENTION,
                "jnp.repeat(x_BSGK, heads // x_BSGK.shape[2], axis=2)",
                "jnp.tile(x_BSGK, (1, 1, heads // x_BSGK.shape[2], 1))", "every query head has its own key head here",
            ),
            (
                "first weights of the router", "model/decoder/initializers.py", '"gate": Normal((0,), truncated=True)',
                '"gate": Normal((0, 1), truncated=True)', "the dictionary is read at import, its entry in 06_moe",
            ),
            (
                "rotary width of latent attention", LAYERS, '"mla": lambda config: config.qk_rope_head_dim',
                '"mla": lambda config: config.qk_rope_head_dim // 2',
                "the lambda is made at import, and called in 07_mla",
            ),
            (
                "progress of a schedule of one step", OPTIMIZER, "if decay > 1 else jnp.float32(1.0)",
                "if decay > 1 else jnp.float32(0.0)", "this schedule has 18 steps of decay",
            ),
            (
                "length of a given schedule", OPTIMIZER, "if length == -1 else length",
                "if length == -1 else length + 1", "the config gives no length",
            ),
            (
                "experts of a mixture", DECODER, '"routed": lambda cfg, name: RoutedMLP(cfg, name=name)',
                '"routed": lambda cfg, name: SharingMLP(cfg, name=name)', "called in 06_moe",
            ),
            (
                "clipping is off below 2", OPTIMIZER, "if limit <= 0:", "if limit <= 0 or limit == 0.5:",
                "the limit is 1 here",
            ),
        ),
    ),
    *plant_all(
        "another case",
        (("load-balance loss × 1.01, trained", EXPERTS, "* count**2 *", "* 1.01 * count**2 *", UNREAD),),
        command=TRAINED,
    ),
)  # fmt: skip

OTHER_TARGETS = "self.batch._replace(targets=self.batch.inputs)"
TREE = "    tree, iterator = run.setup.api.to_tree(state), run.source.iterator"
ZEROS = f'{TREE}\n    tree = {{**tree, "opt_state": jax.tree.map(lambda x: x * 0, tree["opt_state"])}}'
DONE = "        done, finite = step + 1, is_finite(metrics)"
BATCH = "        batch = source.next()"
RUN = "        leaves, metrics = self.compiled(arrays, batch)"
SECONDS = '__import__("time").sleep'
OTHER_SEED = ("[config.data_shuffle_seed, 1] if evaluation", "[config.data_shuffle_seed, 2] if evaluation")


def host(name: str, file: str, old: str, new: str, names: str, why: str, command: str = FUNCTION) -> Plant:
    """Return a plant outside of the compiled step."""
    return Plant(name, "host, data, saves", (Edit(file, old, new),), names, why, command, OUTSIDE)


HOST = (
    host(
        "other data from the third batch on", DATA, NEXT, from_call(3, OTHER_TARGETS), "[Dd]ata|batch",
        "the batches differ",
    ),
    host(
        "other data from the 15th batch on", DATA, NEXT, from_call(15, OTHER_TARGETS), "[Dd]ata|batch",
        "the batches differ",
    ),
    host(
        "other data from the 30th batch on", DATA, NEXT, from_call(30, OTHER_TARGETS), "[Dd]ata|batch",
        "the batches differ in a longer run",
    ),
    host(
        "targets of two rows swapped on the host from step 5 on", LOOP, BATCH,
        f"{BATCH}\n        source.calls = getattr(source, 'calls', 0) + 1\n        if source.calls > 5:\n"
        f"            batch = batch._replace(targets=batch.targets[::-1])",
        "[Dd]ata|batch", "the batches differ",
    ),
    Plant(
        "rows of every batch but the first reversed, with dropout by row", "host, data, saves",
        (Edit(DATA, NEXT, from_call(2, "jax.tree.map(lambda x: x[::-1], self.batch)")),),
        "[Dd]ata|batch", "a sequence drops the units of its row", f"{FUNCTION} --case 03_dropout", OUTSIDE,
    ),
    host(
        "the last save is skipped", LOOP, "force=done == config.steps)", "force=False)", "[Cc]heckpoint|save",
        "the last checkpoint is missing",
    ),
    host(
        "second moments saved as zeros", LOOP, TREE, ZEROS, "[Cc]heckpoint|save",
        "a resumed run starts with other moments",
    ),
    host(
        "other evaluation batches, case 01_base", DATA, *OTHER_SEED, "[Ee]valuation|data_source",
        "another evaluation loss",
    ),
    host(
        "other evaluation batches, case 13_eval", DATA, *OTHER_SEED, "[Ee]valuation", "another evaluation loss",
        f"{FUNCTION} --case 13_eval",
    ),
    host(
        "evaluation loss × 1.01, case 13_eval", EVALUATION, "loss = float(np", "loss = 1.01 * float(np",
        "[Ee]valuation", "another evaluation loss", f"{FUNCTION} --case 13_eval",
    ),
    host(
        "the step sleeps 0.2 s", STEP, RUN, f"        {SECONDS}(0.2)\n{RUN}", "host|time", "a step takes 0.2 s longer",
    ),
    host(
        "the reported loss × 0.99", LOOP, '{"loss": metrics["loss"],', '{"loss": 0.99 * metrics["loss"],',
        "host|loss|loop.py:", "the log differs",
    ),
    host(
        "training goes on after NaN", LOOP,
        "            raise NonFiniteLoss(explain_non_finite(config, step, metrics))", "            pass",
        "host|loop.py:", "a broken run goes on",
    ),
    host(
        "weights × 0.9 on the host at step 30", LOOP, DONE,
        f"        if step == 30:\n            state = jax.tree.map(lambda x: x if x.ndim == 0 else x * 0.9, "
        f"state)\n{DONE}",
        "host|loop.py:", "a longer run has other weights",
    ),
    Plant(
        "weights × 0.999 on the host every 10 steps", "who writes the state",
        (
            Edit(
                LOOP, DONE,
                f"        if step % 10 == 9:\n            state = jax.tree.map(lambda x: x if x.ndim == 0 else x * "
                f"0.999, state)\n{DONE}",
            ),
        ),
        "host|loop.py:|train_loop", "the weights of step 10 are others", FUNCTION, INSIDE,
    ),
    Plant(
        "the optimizer's counter is set back on the host every 8 steps", "who writes the state",
        (
            Edit(
                LOOP, DONE,
                f"        if step % 8 == 7:\n            state = jax.tree.map(lambda x: x * 0 if x.ndim == 0 and x "
                f"is not state.step else x, state)\n{DONE}",
            ),
        ),
        "host|loop.py:|train_loop|count", "the rate of step 8 is that of step 0", FUNCTION, INSIDE,
    ),
)  # fmt: skip


def trained(name: str, edits: tuple[Edit, ...], names: str, why: str, command: str = TRAINED) -> Plant:
    """Return a plant that a training shows, or leaves open."""
    return Plant(name, "trainings", edits, names, why, command, INSIDE)


def held(numbers: int, spaces: int = 8) -> str:
    """Return a line that leaks memory: `numbers` of 8 bytes."""
    return f'{" " * spaces}self.__dict__.setdefault("held", []).append(np.ones({numbers}))'


IS_NNX = '        if type(arrays).__module__.startswith("flax"):'
HALVED = Edit(OPTIMIZER, RATE, rate(late(50)))
TRAININGS = (
    trained(
        "NNX alone sleeps 0.2 s a step", (Edit(STEP, RUN, f"{IS_NNX}\n            {SECONDS}(0.2)\n{RUN}"),),
        "time|host", "3.4 × slower", API,
    ),
    trained(
        "NNX alone sleeps 20 ms a step", (Edit(STEP, RUN, f"{IS_NNX}\n            {SECONDS}(0.02)\n{RUN}"),),
        "time|host", "20 ms of 80 ms", API,
    ),
    trained(
        "NNX alone keeps 65 MB of each step", (Edit(STEP, RUN, f"{IS_NNX}\n    {held(8_125_000)}\n{RUN}"),),
        "[Mm]emory", "1.3 GB in 20 steps", API,
    ),
    trained(
        "the loop sleeps 50 ms a step", (Edit(LOOP, DONE, f"        {SECONDS}(0.05)\n{DONE}"),), "time|host",
        "a step takes 15 ms", TWICE,
    ),
    trained(
        "the data source sleeps 30 ms", (Edit(LOOP, BATCH, f"        {SECONDS}(0.03)\n{BATCH}"),), "time|host|input",
        "a step takes 15 ms", TWICE,
    ),
    trained(
        "every fifth step sleeps 0.2 s",
        (Edit(LOOP, DONE, f"        if step % 5 == 4:\n            {SECONDS}(0.2)\n{DONE}"),), "time|host|slow|stall",
        "40 ms a step on average", TWICE,
    ),
    trained(
        "65 MB of each step are kept", (Edit(STEP, RUN, f"{held(8_125_000)}\n{RUN}"),), "[Mm]emory",
        "1.3 GB in 20 steps",
    ),
    trained(
        "5 MB of each step are kept", (Edit(STEP, RUN, f"{held(655_000)}\n{RUN}"),), "[Mm]emory", "100 MB in 20 steps",
    ),
    trained(
        "the last save is skipped, trained", (Edit(LOOP, "force=done == config.steps)", "force=False)"),),
        "[Cc]heckpoint", "the last checkpoint is missing",
    ),
    trained(
        "second moments saved as zeros, trained", (Edit(LOOP, TREE, ZEROS),), "[Cc]heckpoint|opt_state|nu",
        "a resumed run starts with other moments",
    ),
    trained("rate × 0.5 from step 50 on, trained", (HALVED,), r"optimizer\.py:\d+|no run reached", FOREVER, CALM),
    trained(
        "other data from the third batch on, trained", (Edit(DATA, NEXT, from_call(3, OTHER_TARGETS)),),
        "[Dd]ata|batch|[Ll]oss", "the batches differ",
    ),
    trained(
        "other evaluation batches, trained", (Edit(DATA, *OTHER_SEED),), "[Ee]valuation", "another evaluation loss",
        f"{TRAINED} --case 13_eval",
    ),
    trained(
        "no update if the norm exceeds 1000, trained",
        (Edit(OPTIMIZER, FACTOR, "factor = jnp.where(norm > 1000.0, 0.0, jnp.minimum(1.0, limit / norm))"),),
        r"optimizer\.py:\d+|no run reached", BEHIND, CALM,
    ),
)  # fmt: skip

FOLDED = "jax.random.key(config.init_weights_seed), step)"
FIRST_STEP = (
    Edit(LOOP, "    setup = declare_state(config, make", (
        "    folder = run_directory / 'checkpoints'\n"
        "    saved = [int(x.name) for x in folder.iterdir() if x.name.isdigit()] if folder.exists() else []\n"
        "    optimizer.FIRST = max(saved, default=-1) + 1\n"
        "    setup = declare_state(config, make"
    )),
    Edit(
        LOOP, "from model.train import checkpoint, report\n", "from model.train import checkpoint, optimizer, report\n",
    ),
    Edit(OPTIMIZER, "def schedule_steps(", "FIRST = 0  # set by the loop\n\n\ndef schedule_steps("),
)  # fmt: skip
TWIN = "invariants --ref . --twin resumed"
RESUMED = (
    Plant(
        "a resumed process counts its keys from its own first step", "resumed",
        (
            *FIRST_STEP,
            Edit(OBJECTIVE, FOLDED, "jax.random.key(config.init_weights_seed), step - optimizer.FIRST)"),
            Edit(
                OBJECTIVE, "from model.train.batch import",
                "from model.train import optimizer\nfrom model.train.batch import",
            ),
        ),
        r"objective\.py:\d+|another function|program", "step 2 drops the units of step 0", f"{TWIN} --case 03_dropout",
        frozenset({DIFFERENT, UNKNOWN}),
    ),
    Plant(
        "a resumed process halves its rate", "resumed",
        (*FIRST_STEP, Edit(OPTIMIZER, RATE, rate("(0.5 if FIRST else 1.0)"))),
        r"optimizer\.py:\d+|another function|program", "a resumed run has half the rate", TWIN, frozenset(
            {DIFFERENT, UNKNOWN},
        ),
    ),
    Plant(
        "a resumed process begins with the first text", "resumed",
        (Edit(LOOP, "    checkpoint.restore_position(manager, latest, source.iterator)\n", ""),),
        "batch|data|inputs", "the batches differ", f"{TWIN} --case 08_packing", frozenset({DIFFERENT, UNKNOWN}),
    ),
)  # fmt: skip

CLAMPED = (
    'logits_BLV = jnp.einsum("BLE,EV->BLV", x_BLE, kernel_EV)',
    'logits_BLV = jnp.clip(jnp.einsum("BLE,EV->BLV", x_BLE, kernel_EV), -1000.0, 1000.0)',
)
FILES = (
    Plant(
        "a renamed file has a clamp", "files",
        (
            Edit(LOSS, *CLAMPED), Rename(LOSS, "model/train/losses.py"),
            Edit(OBJECTIVE, "from model.train.loss import", "from model.train.losses import"),
        ),
        r"losses\.py:\d+", BEHIND,
    ),
    Plant(
        "a new file has the rate's table", "files",
        (
            Edit("model/train/rates.json", "", "[1.0, 1.0, 0.5]\n"),
            Edit(OPTIMIZER, RATE, rate("jnp.asarray(TABLE)[jnp.minimum(jnp.asarray(step) // 1000, 2)]")),
            Edit(
                OPTIMIZER, "def schedule_steps(",
                'TABLE = json.loads((Path(__file__).parent / "rates.json").read_text())\n\n\ndef schedule_steps(',
            ),
            Edit(
                OPTIMIZER, "from typing import NamedTuple\n",
                "import json\nfrom pathlib import Path\nfrom typing import NamedTuple\n",
            ),
        ),
        r"optimizer\.py:\d+|rates\.json", FOREVER,
    ),
    Plant(
        "texts of another case", "files",
        (
            Edit("configs/data/more.txt", "", "Another text.\n"),
            Edit(
                "configs/cases/08_packing.yml", "grain_train_files: configs/data/glossary-train.txt",
                "grain_train_files: configs/data/glossary-train.txt,configs/data/more.txt",
            ),
        ),
        r"08_packing|more\.txt", "08_packing trains on other texts", FUNCTION, INSIDE,
    ),
    Plant(
        "another default of the evaluation", "files",
        (Edit("configs/base.yml", "eval_steps: 1  ", "eval_steps: 3  "),),
        "eval_steps|evaluation", "an evaluation has other batches", FUNCTION, OUTSIDE,
    ),
    Plant(
        "another version of a package, which no environment has", "files",
        (Edit("pyproject.toml", '"optax>=', '"optax!=0.2.8,>='),), "pyproject",
        "the branch would train with another optax",
    ),
)  # fmt: skip

OURS = (*LATER, *GUARDS, *ANOTHER_CASE, *HOST, *TRAININGS, *RESUMED, *FILES)
