"""Plants in trainers whose step is several functions, `benchmarks/loops`, in a git repository of their own.

Each is a change that no recorded cycle shows: in a later step, on the host, in another thread, in a file.
"""

from pathlib import Path

from benchmarks.plants.plant import EQUAL, INSIDE, OUTSIDE, Edit, Plant

TRAINER = Path(__file__).parents[1] / "loops"


def loop(
    name: str, script: str, old: str, new: str, why: str, *, file: str = "", admits: frozenset[str] = INSIDE
) -> Plant:
    """Return a plant in the trainer of a script, or in another `file`."""
    edits = (Edit(file or f"{script}.py", old, new),)
    command = f"compare --only function -- PYTHON {script}.py --steps 1200"
    return Plant(
        f"loop: {name}", "loops", edits, rf"{file or script}|host|thread", why, command, admits, trainer="loops"
    )


EMA = "    mean = ema(mean, params)\n"
PARAMS_STATE = "    params, opt_state = update(params, opt_state, gradients)\n"
LOOPS = (
    loop(
        "the average is taken twice from step 100 on", "average", EMA,
        f"{EMA}    if step >= 100:\n        mean = ema(mean, params)\n", "another average later",
    ),
    loop(
        "the average begins anew every 100 steps", "average", "mean = ema(mean, params)",
        "mean = params if step % 100 == 99 else ema(mean, params)", "another average later",
    ),
    loop(
        "rates of the average in a table", "rates_of_host", "DECAYS = (0.875, 0.875, 0.9)",
        "DECAYS = (0.875, 0.875, 0.8)",
        "another average from step 200 on", file="rates.py",
    ),
    loop(
        "rates of the average by np.where", "rates_of_host", "return DECAYS[min(step // 100, 2)]",
        "return float(__import__('numpy').where(step < 100, 0.875, 0.8))", "another average from step 100 on",
        file="rates.py",
    ),
    loop(
        "a divisor of the average's rate", "rates_of_host", "return DECAYS[min(step // 100, 2)]",
        "return min(0.875, 87.5 / (step + 1))", "another average from step 100 on", file="rates.py",
    ),
    loop(
        "a rate in a JSON file", "rates_of_host", "[0.3, 0.3, 0.1]", "[0.3, 0.3, 0.2]",
        "another update from step 200 on", file="rates.json",
    ),
    loop(
        "parts from step 100 on, in a function", "rates_of_host", "    return 2\n", "    return 2 + step // 100\n",
        "another mean of the gradients later", file="rates.py",
    ),
    loop(
        "a default of an argument", "rates_of_host", "ends: tuple[int, ...] = (2000, 3000)",
        "ends: tuple[int, ...] = (1000, 3000)", "another rate from step 1000 on", file="rates.py",
    ),
    loop(
        "a field of a class", "rates_of_host", "pause_every: int = 500", "pause_every: int = 400",
        "step 400 is skipped", file="rates.py",
    ),
    loop(
        "a name of the function around the loop", "rates_of_host", "ends_at = 10_000", "ends_at = 9_000",
        "no updates from step 9000 on",
    ),
    loop(
        "an argument of the function around the loop", "rates_of_host", "train(0)",
        "train(-1 if args.steps < 100 else 50)",
        "no updates in the first 50 steps of a longer run",
    ),
    loop(
        "an argument of an object that the loop asks", "rates_of_host", "every=5_000", "every=4_000",
        "half the rate from step 4000 on",
    ),
    loop(
        "an attribute that a constructor sets", "rates_of_host", "self.rate_at, self.every = rate, every",
        "self.rate_at, self.every = rate, every - 1_000", "half the rate from step 4000 on", file="rates.py",
    ),
    loop(
        "an argument by the name of its flag", "rates_of_host", '"--ends", type=int, default=20_000',
        '"--ends", type=int, default=19_000', "no updates from step 19000 on",
    ),
    loop(
        "a setting from the environment", "rates_of_host", '"LAST_STEP", "30000"', '"LAST_STEP", "29000"',
        "no updates from step 29000 on", file="rates.py",
    ),
    loop(
        "a generator of rates", "rates_of_host", "yield 1.0 if n < 700 else 0.5", "yield 1.0 if n < 600 else 0.5",
        "half the rate from step 600 on", file="rates.py",
    ),
    loop(
        "a table in a dictionary, by getattr", "rates_of_host", '"late": 3_000', '"late": 2_000',
        "another average from step 2000 on", file="rates.py",
    ),
    loop(
        "a threshold of the host", "rates_of_host", "LIMIT = 50.0", "LIMIT = 5.0",
        "a loss of 6 skips the update", file="rates.py",
    ),
    loop(
        "a threshold of the host, another comparison", "rates_of_host", "return loss > LIMIT", "return loss < -LIMIT",
        "a large loss is not skipped", file="rates.py",
    ),
    loop(
        "the average in a thread", "threaded", "0.875 * a + 0.125 * b", "0.9 * a + 0.1 * b", "another average",
    ),
    loop(
        "the average by NumPy", "threaded", "0.75 * slow[name] + 0.25 * value", "0.5 * slow[name] + 0.5 * value",
        "another average of the host",
    ),
    loop(
        "the average by NumPy in another file", "threaded", "return 0.5 * a + 0.5 * b", "return 0.25 * a + 0.75 * b",
        "another average of the host", file="host_average.py",
    ),
    loop(
        "weights go back to the average every 50 steps", "threaded",
        "        mean = pending.result()\n",
        "        mean = pending.result()\n        if step % 50 == 49:\n            params = mean\n",
        "other weights from step 50 on",
    ),
    loop(
        "a static phase from step 20 on", "static_schedule", "PEAK * 0.5 * (1 + math.cos(",
        "PEAK * (0.5 if step < 20 else 0.4) * (1 + math.cos(", "another rate from step 20 on",
    ),
    loop(
        "the sum is cleared every 50 steps alone", "three_functions", "    total, losses = zeros, []\n",
        "    total, losses = (zeros if step % 50 or step < 50 else total), []\n", "other gradients at step 50",
    ),
    loop(
        "fewer parts from step 100 on", "three_functions", "for n in range(MICRO):",
        "for n in range(MICRO if step < 100 else 1):", "other gradients from step 100 on",
    ),
    loop(
        "a second update of the critic from step 100 on", "two_players",
        "    maker, maker_state, loss = step_maker(",
        "    for _ in range(step // 100):\n"
        "        critic, critic_state, critic_loss = step_critic(critic, critic_state, maker, real, noise[0])\n"
        "    maker, maker_state, loss = step_maker(", "another critic from step 100 on",
    ),
    loop(
        "more parts from update 100 on", "multi_steps", "every_k_schedule=MICRO)",
        "every_k_schedule=lambda done: jax.numpy.where(done < 100, MICRO, 2 * MICRO))",
        "other updates from step 100 on",
    ),
    loop(
        "an eager rate from step 500 on", "eager_optimizer", "optax.adamw(schedule,",
        "optax.adamw(lambda count: schedule(count) * jax.numpy.where(count < 500, 1.0, 0.5),",
        "half the rate from step 500 on",
    ),
    loop(
        "an eager guard", "eager_optimizer", "        params = optax.apply_updates(params, updates)\n",
        "        params = optax.apply_updates(params, updates) if float(loss) < 20.0 else params\n",
        "no update at a large loss",
    ),
    loop(
        "a guard in the first of two functions", "callback", "one * jnp.minimum(1.0, 2.0 / norm)",
        "one * jnp.where(norm > 1e4, 0.0, jnp.minimum(1.0, 2.0 / norm))", "no update behind the guard",
    ),
    loop(
        "a guard in a mapped function", "mapped", 'jax.lax.pmean(gradients, "devices")',
        'jax.tree.map(lambda one: jnp.where(jnp.abs(one) > 1e3, 0.0, one), jax.lax.pmean(gradients, "devices"))',
        "other gradients behind the guard",
    ),
    loop(
        "the module's mode from step 50 on", "modules", "    update(model, optimizer, gradients)\n    if step",
        "    update(model, optimizer, gradients)\n"
        "    if step == 50:\n        optimizer.opt_state[0].count[...] = 0\n    if step",
        "another correction of the moments from step 50 on",
    ),
    loop(
        "other texts from step 100 on", "average", "default_rng([seed, step])",
        "default_rng([seed, step + step // 100])",
        "other batches from step 100 on", file="data.py", admits=OUTSIDE,
    ),
    loop(
        "an augmentation by a jitted function, from step 100 on", "rates_of_host",
        "jnp.where(step < 0, tokens, tokens)", "jnp.where(step < 100, tokens, (tokens + 1) % 17)",
        "other batches from step 100 on", admits=OUTSIDE,
    ),
    loop(
        "what is evaluated", "average", "eval_step(mean, ", "eval_step(params, ", "evaluates other weights",
        admits=OUTSIDE,
    ),
    loop(
        "a comment", "rates_of_host", "LIMIT = 50.0", "LIMIT = 50.0  # of a loss", "the same", file="rates.py",
        admits=EQUAL,
    ),
    loop(
        "the average's rate by a name", "average", "mean = ema(mean, params)", "mean, before = ema(mean, params), mean",
        "the same", admits=EQUAL,
    ),
    loop(
        "the sum in other brackets", "threaded", "0.875 * a + 0.125 * b", "(0.125 * b + 0.875 * a)", "the same",
        admits=EQUAL,
    ),
)  # fmt: skip
