"""Plants in a stranger's trainers: small files with a git repository of their own, in `stranger_trainer`."""

from pathlib import Path

from benchmarks.plants.plant import EQUAL, INSIDE, OUTSIDE, Edit, Plant, Rename

TRAINER = Path(__file__).parent / "stranger_trainer"
COMPARISON = """\
# Does the working tree train as main does?
trainer: command
command:
  argv: ["{python}", SCRIPT.py, "--steps={steps}", "--lr={learning_rate}", "--out={out}"]
  checkpoints: checkpoints
repository: FOLDER
target: cpu
cases: [01_base]
repeats: 1
tolerances: default
explain: "off"
arms:
  - {name: baseline, ref: main}
  - {name: branch, ref: .}
set: {learning_rate: 0.01}
"""
SCRIPTS = (
    "train", "split", "eager", "gan", "average", "phases", "rates", "scheduled", "checked", "curriculum", "host",
    "epochs", "counted", "flat", "refs", "classifier",
)  # fmt: skip
COMPARISONS = {f"stranger-{script}": COMPARISON.replace("SCRIPT", script) for script in SCRIPTS}
SHARED = (TRAINER / "common.py").read_text(encoding="utf-8")
FIRST_WEIGHTS = SHARED[SHARED.index("def first_weights(") : SHARED.index("def loss_of(")]
DECAY = ("weight_decay=0.1)", "weight_decay=0.11)")
RATE = "return args.lr *"
CHAIN = "optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(rate, weight_decay=0.1))"
CLIP = "optax.clip_by_global_norm(1.0), "
ORDER = "order = np.random.default_rng([self.seed, epoch]).permutation(TEXTS)"
UPDATE = '    updates, moments = optimizer.update(gradients, state["moments"], params)'
CALL = "        state, loss = update(state, texts, step)"
SAVE = "args=ocp.args.StandardSave(state))"
FUNCTION, TRAINED, TWICE = "--only function", "--repeats 1 --interleave off", "--repeats 2 --interleave off"


def stranger(
    kind: str,
    name: str,
    script: str,
    edits: tuple[Edit | Rename, ...],
    names: str,
    why: str,
    *,
    admits: frozenset[str] = INSIDE,
    options: str = FUNCTION,
) -> Plant:
    """Return a plant in the trainer of a script."""
    command = f"compare stranger-{script} {options}"
    return Plant(f"stranger: {name}", kind, edits, names, why, command, admits, trainer="stranger")


def writer(name: str, script: str, old: str, new: str, names: str, why: str) -> Plant:
    """Return a plant in a function that writes the state."""
    return stranger("who writes the state", name, script, (Edit(f"{script}.py", old, new),), names, why)


WRITERS = (
    writer("weight decay in a second jitted function", "split", *DECAY, "apply", "other weights after each step"),
    writer(
        "weight decay in an eager optimizer", "eager", *DECAY, r"eager\.py|eager|host|update",
        "other weights after each step",
    ),
    writer(
        "loss of the second player", "gan", "+ jnp.mean(jax.nn.softplus(-rate",
        "+ 0.9 * jnp.mean(jax.nn.softplus(-rate", "critic", "another critic",
    ),
    writer(
        "average in a function of its own", "average", "0.99 * old + 0.01 * new", "0.98 * old + 0.02 * new", "average",
        "another average",
    ),
    writer(
        "the last phase of a static argument, never traced", "phases", "factor = 0.5 if", "factor = 0.0 if",
        r"phase|static|phases\.py:\d+", "no update from step 50 on",
    ),
    writer(
        "a static argument changes at step 10", "phases", "BEGIN_OF_LAST = 50", "BEGIN_OF_LAST = 10",
        "phase|static|compile|programs", "another factor from step 10 on",
    ),
    writer(
        "decay from a callback", "rates", "return np.float32(0.1)", "return np.float32(0.2)", "callback|decay_of",
        "another decay in each step",
    ),
    writer(
        "the host's rate from step 10 on", "scheduled", "return args.lr /",
        "return (0.5 if step >= 10 else 1.0) * args.lr /", "rate|host", "half the rate from step 10 on",
    ),
    writer("a check was recorded, not the step", "checked", *DECAY, r"advance|check", "other weights after each step"),
    writer(
        "the larger batch of a second compile", "curriculum", "1.0 * x", "0.0 * x",
        r"compile|programs|curriculum\.py:\d+|shape", "no update from step 10 on",
    ),
    writer(
        "average in references that the step writes", "refs", "0.99 * held[...] + 0.01 * new",
        "0.98 * held[...] + 0.02 * new", r"average|refs\.py:\d+|reference|effect", "another average",
    ),
    writer(
        "a step made anew for each epoch", "epochs", "args.lr * 0.9**epoch",
        "args.lr * (0.9**epoch if epoch < 1 else 0.5)", r"compile|programs|epochs\.py:\d+|train_step|constant",
        "another rate from step 8 on",
    ),
    stranger("who writes the state", "the average of the weights is gone", "train", (
        Edit(
            "train.py",
            '    average = jax.tree.map(lambda old, new: 0.99 * old + 0.01 * new, state["average"], params)\n', "",
        ),
        Edit("train.py", ' "average": average,', ""), Edit("train.py", ' "average": params,', ""),
    ), "average", "no average is saved"),
    writer(
        "the host's factor of a kernel", "host", "np.float32(0.999)", "np.float32(0.99)", r"host|params|out|host\.py",
        "another kernel from step 5 on",
    ),
)  # fmt: skip

LATER = (
    *(
        stranger(
            "later steps", name, "train", (Edit("train.py", RATE, f"return {factor} * args.lr *"),),
            r"train\.py:\d+|count", "a longer run has other rates",
        )
        for name, factor in (
            ("rate 0 from step 1000 on", "jnp.where(count < 1000, 1.0, 0.0)"),
            ("rate × 0.5 after three lengths of the schedule", "jnp.where(progress > 3.0, 0.5, 1.0)"),
            (
                "rate from a table, a row per thousand steps",
                "jnp.asarray([1.0, 1.0, 0.5])[jnp.minimum(count // 1000, 2)]",
            ),
            ("rate halved every 500 steps, by floor", "0.5 ** jnp.floor(count / 500)"),
            ("rate × 0.5 by a bit of the counter", "(1.0 - 0.5 * ((count >> 12) & 1))"),
            ("no update in one step of a thousand", "jnp.where((count + 263) % 1000 == 0, 0.0, 1.0)"),
            ("a ramp behind fifty lengths", "(1.0 + 0.01 * jax.nn.relu(progress - 50.0))"),
            ("a loop of count // 64 turns", "jax.lax.fori_loop(0, count // 64, lambda _, x: 0.9 * x, 1.0)"),
            ("rate by lax.switch", "jax.lax.switch(jnp.minimum(count // 2000, 1), [lambda: 1.0, lambda: 0.5])"),
            (
                "rate by searchsorted",
                "jnp.asarray([1.0, 0.5, 0.1])[jnp.searchsorted(jnp.asarray([1000, 5000]), count)]",
            ),
            ("rate by the sign of the progress", "(0.75 - 0.25 * jnp.sign(progress - 200.0))"),
            ("the counter in int8", "jnp.exp(-1e-3 * count.astype(jnp.int8)) * jnp.exp(1e-3 * count)"),
        )
    ),
    stranger(
        "later steps", "rate × 0.5 from step 50 on, with the host's counter", "counted",
        (Edit("counted.py", "rate = args.lr *", "rate = jnp.where(count >= 50, 0.5, 1.0) * args.lr *"),),
        r"counted\.py:\d+|count", "half the rate from step 50 on",
    ),
    stranger(
        "later steps", "the host's rate from step 50 on", "scheduled",
        (Edit("scheduled.py", "return args.lr /", "return (0.5 if step >= 50 else 1.0) * args.lr /"),),
        "rate|host|later", "half the rate from step 50 on", admits=OUTSIDE,
    ),
    stranger(
        "later steps", "a static argument changes at step 40", "phases",
        (Edit("phases.py", "BEGIN_OF_LAST = 50", "BEGIN_OF_LAST = 40"),),
        "phase|static|host|later", "another factor from step 40 on", admits=OUTSIDE,
    ),
    stranger(
        "files", "the host's rates in a JSON file, from step 50 on", "rates",
        (Edit("factors.json", "[1.0, 1.0, 1.0, 0.9, 0.9, 0.9, 0.8]", "[1.0, 1.0, 1.0, 0.9, 0.9, 0.1, 0.8]"),),
        r"factors\.json|rate|host|callback", "another rate from step 50 on", admits=OUTSIDE,
    ),
)  # fmt: skip

GUARDS = (
    stranger(
        "guards", "no update if the norm exceeds 1000, arrays without names", "flat",
        (
            Edit(
                "flat.py", "jnp.minimum(1.0, 1.0 / norm)",
                "jnp.where(norm > 1000.0, 0.0, jnp.minimum(1.0, 1.0 / norm))",
            ),
        ),
        r"flat\.py:\d+|norm", "no update behind the guard",
    ),
    stranger(
        "a line that ran, whose changed part did not", "a default that this trainer does not use", "curriculum",
        (Edit("common.py", "rows: int = ROWS", "rows: int = 2 * ROWS"),), r"common\.py:\d+",
        "the other trainers read other batches",
    ),
    stranger(
        "constants", "a captured table × 1.01", "train", (
            Edit("common.py", "POSITIONS = 0.1 *", "POSITIONS = 0.101 *"),
        ),
        r"common\.py:\d+|constant", "another embedding of every position",
    ),
    stranger(
        "range of a type", "first moments in bfloat16", "train",
        (Edit("train.py", "weight_decay=0.1", "weight_decay=0.1, mu_dtype=jnp.bfloat16"),),
        r"train\.py:\d+|[Rr]ounding|bf16|bfloat16", "the moments keep 8 bits of 24",
    ),
    stranger(
        "guards", "one more member of the optimizer's chain: a clamp to ±100", "train",
        (Edit("train.py", CLIP, f"optax.clip(100.0), {CLIP}"),), r"train\.py:\d+|clip|moments",
        "larger gradients are clamped",
    ),
    *(
        stranger(
            "guards", name, "train",
            (Edit("train.py", UPDATE, f"    gradients = jax.tree.map(lambda x: {new}, gradients)\n{UPDATE}"),),
            r"train\.py:\d+|gradient", "a gradient behind the guard gives another update",
        )
        for name, new in (
            ("gradients clamped to ±100", "jnp.clip(x, -100.0, 100.0)"),
            ("NaN in gradients becomes 0", "jnp.nan_to_num(x)"),
            ("gradients below 1e-9 become 0, all at once", "jnp.where(optax.tree.norm(gradients) < 1e-9, 0.0, x)"),
            ("no update if the loss exceeds 30", "jnp.where(loss > 30.0, 0.0, x)"),
        )
    ),
    *(
        stranger(
            "guards", name, "train", (Edit("common.py", old, new),), r"common\.py:\d+|loss",
            "a state behind the clamp has another loss",
        )
        for name, old, new in (
            (
                "logits clamped to ±500", 'logits = x @ params["out"]',
                'logits = jnp.clip(x @ params["out"], -500.0, 500.0)',
            ),
            ("kernels clamped to ±50", '["hidden"]["kernel"] +', '["hidden"]["kernel"].clip(-50.0, 50.0) +'),
        )
    ),
    stranger(
        "guards", "no update without finite gradients", "train",
        (Edit("train.py", CHAIN, f"{CHAIN}\noptimizer = optax.apply_if_finite(optimizer, 3)"),),
        r"train\.py:\d+|notfinite|finite|states differ", "after a NaN the weights are kept",
    ),
    stranger(
        "guards", "weight of a token that no text has, by comparison", "train",
        (
            Edit(
                "common.py", "jnp.asarray(TOKEN_WEIGHTS)[targets]",
                "jnp.asarray(TOKEN_WEIGHTS)[targets] * jnp.where(targets == 63, 1.5, 1.0)",
            ),
        ),
        r"common\.py:\d+", "texts with the token have another loss",
    ),
    stranger(
        "guards", "weight of a token that no text has, in a table", "train",
        (Edit("common.py", "[1.0] * VOCABULARY", "[1.0] * (VOCABULARY - 1) + [1.5]"),),
        r"common\.py:\d+|table|constant|token", "texts with the token have another loss",
    ),
)  # fmt: skip

HOST = (
    stranger(
        "host, data, saves", "another order of texts from the second epoch on", "train",
        (Edit("common.py", ORDER, ORDER.replace("epoch]", "epoch + (epoch > 0)]")),),
        "[Dd]ata|batch", "batches 8 to 19 differ", admits=OUTSIDE,
    ),
    stranger(
        "host, data, saves", "another order of texts from the fourth epoch on", "train",
        (Edit("common.py", ORDER, ORDER.replace("epoch]", "epoch + (epoch > 2)]")),),
        "[Dd]ata|batch", "batches from 24 on differ", admits=OUTSIDE,
    ),
    stranger(
        "host, data, saves", "moments saved as zeros", "train",
        (
            Edit(
                "common.py", SAVE,
                'args=ocp.args.StandardSave({**state, "moments": jax.tree.map(jnp.zeros_like, state["moments"])}))',
            ),
        ),
        "[Cc]heckpoint|save", "a resumed run has other moments", admits=OUTSIDE,
    ),
    stranger(
        "trainings", "moments saved as zeros, trained", "train",
        (
            Edit(
                "common.py", SAVE,
                'args=ocp.args.StandardSave({**state, "moments": jax.tree.map(jnp.zeros_like, state["moments"])}))',
            ),
        ),
        "[Cc]heckpoint|moments", "a resumed run has other moments", options=TRAINED,
    ),
    stranger(
        "trainings", "rate × 3, with lower losses", "train", (
            Edit("train.py", RATE, f"return 3 * {RATE.removeprefix('return ')}"),
        ),
        "[Ll]oss", "another function is no improvement", options=TRAINED,
    ),
    stranger(
        "trainings", "the loop sleeps 50 ms", "train", (Edit("common.py", CALL, f"{CALL}\n        time.sleep(0.05)"),),
        "time|host", "a step takes 1 ms", options=TWICE,
    ),
    stranger(
        "trainings", "65 MB of each step are kept", "train",
        (Edit("common.py", CALL, f'{CALL}\n        args.__dict__.setdefault("held", []).append(np.ones(8_125_000))'),),
        "[Mm]emory", "1.3 GB in 20 steps", options=TRAINED,
    ),
    stranger(
        "trainings", "weight decay in an eager optimizer, trained", "eager", (Edit("eager.py", *DECAY),),
        "[Ll]oss|[Cc]heckpoint", "other weights after each step", options=TRAINED,
    ),
)  # fmt: skip


def innocent(name: str, script: str, *edits: Edit) -> Plant:
    """Return an innocent change of a stranger's trainer."""
    return stranger("innocent", name, script, edits, "", "the same function", admits=EQUAL)


LOGSUMEXP, PICKED = (
    "jax.nn.logsumexp(logits, axis=-1)",
    "    picked = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]",
)
INNOCENT = (
    innocent(
        "a type hint less", "train", Edit("train.py", "def rate(count: jax.Array) -> jax.Array:", "def rate(count):"),
    ),
    innocent(
        "a function moved", "train", Edit("common.py", FIRST_WEIGHTS, ""),
        Edit("common.py", "class Texts:", f"{FIRST_WEIGHTS}class Texts:"),
    ),
    innocent(
        "logsumexp written out", "train",
        Edit(
            "common.py", LOGSUMEXP,
            "(jnp.max(logits, axis=-1) + jnp.log(jnp.sum(jnp.exp(logits - jnp.max(logits, axis=-1, "
            "keepdims=True)), axis=-1)))",
        ),
    ),
    innocent(
        "one-hot product in place of a gather", "train",
        Edit("common.py", PICKED, "    picked = jnp.sum(logits * jax.nn.one_hot(targets, VOCABULARY), axis=-1)"),
    ),
    innocent(
        "remat of the loss", "train",
        Edit("train.py", "jax.value_and_grad(loss_of)", "jax.value_and_grad(jax.checkpoint(loss_of))"),
    ),
    innocent(
        "rate factored otherwise", "train",
        Edit(
            "train.py", "args.lr * (0.55 + 0.45 * jnp.cos(jnp.pi * jnp.minimum(progress, 1.0)))",
            "(0.45 * jnp.cos(jnp.pi * jnp.minimum(1.0, progress)) + 0.55) * args.lr",
        ),
    ),
    innocent(
        "where in place of minimum", "train",
        Edit("train.py", "jnp.minimum(progress, 1.0)", "jnp.where(progress > 1.0, 1.0, progress)"),
    ),
    innocent(
        "average in another order", "train", Edit("train.py", "0.99 * old + 0.01 * new", "new * 0.01 + old * 0.99"),
    ),
    innocent(
        "an identity in the second jitted function", "split",
        Edit(
            "split.py", "    return optax.apply_updates(params, updates), moments",
            "    params = optax.apply_updates(params, updates)\n    return params, moments",
        ),
    ),
    innocent(
        "a comment beside an eager optimizer", "eager",
        Edit(
            "eager.py", "    loss, gradients = gradients_of(",
            "    # forward and backward\n    loss, gradients = gradients_of(",
        ),
    ),
    innocent(
        "names in the second player", "gan",
        Edit("gan.py", "        false = rate_vectors(params, make(", "        made = rate_vectors(params, make("),
        Edit("gan.py", "softplus(false)", "softplus(made)"),
    ),
    innocent("a comment", "train", Edit("train.py", "@jax.jit\n", "# the step\n@jax.jit\n")),
    innocent(
        "einsum in place of @", "train",
        Edit("common.py", "logits = x @ params[\"out\"]", 'logits = jnp.einsum("...e,ev->...v", x, params["out"])'),
    ),
    innocent(
        "adamw written out", "train",
        Edit(
            "train.py", "optax.adamw(rate, weight_decay=0.1)",
            "optax.chain(optax.scale_by_adam(), optax.add_decayed_weights(0.1), optax.scale_by_learning_rate(rate))",
        ),
    ),
    innocent(
        "logging", "train",
        Edit("common.py", CALL, f'{CALL}\n        if step % 10 == 0:\n            print(f"step {{step}} is done")'),
    ),
    innocent(
        "the step renamed", "train", Edit("train.py", "def train_step(", "def advance("),
        Edit("train.py", "return train_step(", "return advance("),
    ),
    innocent(
        "rows of every batch but the first reversed", "train",
        Edit(
            "common.py", "return text[:, :-1], text[:, 1:]",
            "text = text[:: 1 if self.position == 1 else -1]\n        return text[:, :-1], text[:, 1:]",
        ),
    ),
)  # fmt: skip

STRANGER = (*WRITERS, *LATER, *GUARDS, *HOST)
