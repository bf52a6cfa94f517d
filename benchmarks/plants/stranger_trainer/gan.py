"""Two players, each with a jitted step of its own: a generator of vectors, and a critic."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from common import WIDTH, State, Texts, read_arguments, train

args = read_arguments()
optimizer = optax.adam(args.lr)


def make(params: State, noise: jax.Array) -> jax.Array:
    """Return the generator's vectors."""
    return jnp.tanh(noise @ params["first"]) @ params["second"]


def rate_vectors(params: State, vectors: jax.Array) -> jax.Array:
    """Return the critic's logits."""
    return (jnp.tanh(vectors @ params["first"]) @ params["second"])[..., 0]


def move(gradients: State, player: State) -> State:
    """Return a player after its update."""
    updates, moments = optimizer.update(gradients, player["moments"], player["params"])
    return {"params": optax.apply_updates(player["params"], updates), "moments": moments}


@jax.jit
def generator_step(generator: State, critic: State, noise: jax.Array) -> tuple[State, jax.Array]:
    """Return the generator after a step, and its loss."""

    def loss_of(params: State) -> jax.Array:
        return jnp.mean(jax.nn.softplus(-rate_vectors(critic, make(params, noise))))

    loss, gradients = jax.value_and_grad(loss_of)(generator["params"])
    return move(gradients, generator), loss


@jax.jit
def critic_step(critic: State, generator: State, noise: jax.Array, real: jax.Array) -> tuple[State, jax.Array]:
    """Return the critic after a step, and its loss."""

    def loss_of(params: State) -> jax.Array:
        false = rate_vectors(params, make(generator, noise))
        return jnp.mean(jax.nn.softplus(false)) + jnp.mean(jax.nn.softplus(-rate_vectors(params, real)))

    loss, gradients = jax.value_and_grad(loss_of)(critic["params"])
    return move(gradients, critic), loss


def player(seed: int, ends: int) -> State:
    """Return a player before step 0."""
    random = np.random.default_rng(seed)
    params = {
        "first": jnp.asarray(random.standard_normal((WIDTH, 48)) / 6, jnp.float32),
        "second": jnp.asarray(random.standard_normal((48, ends)) / 7, jnp.float32),
    }
    return {"params": params, "moments": optimizer.init(params)}


def update(state: State, texts: Texts, step: int) -> tuple[State, jax.Array]:
    """Run a step of each."""
    random = np.random.default_rng(step)
    noise, real = (random.standard_normal((16, WIDTH)).astype(np.float32) for _ in range(2))
    generator, loss = generator_step(state["generator"], state["critic"]["params"], noise)
    critic, _ = critic_step(state["critic"], generator["params"], noise, real)
    return {"generator": generator, "critic": critic}, loss


train(args, {"generator": player(0, WIDTH), "critic": player(1, 1)}, update)
