"""Turns activations and a kernel into their contraction, in the numbers asked for and with its gradients spelt out."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp

type Product = Callable[[str, jax.Array, jax.Array], jax.Array]  # (equation, left, right)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def contract(product: Product, equation: str, x: jax.Array, kernel: jax.Array) -> jax.Array:
    """`product(equation, x, kernel)` for an equation whose every letter stands in two of its three terms.

    The weight gradient is spelt out because the one that JAX derives contracts in the other order and then transposes:
    on CPU that falls out of the fast matmul path and costs about as much as the rest of the step.
    """
    return product(equation, x, kernel)


def _contract_forward(
    product: Product, equation: str, x: jax.Array, kernel: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return product(equation, x, kernel), (x, kernel)


def _contract_backward(
    product: Product, equation: str, saved: tuple[jax.Array, jax.Array], gradient: jax.Array
) -> tuple[jax.Array, jax.Array]:
    x, kernel = saved
    inputs, out = equation.split("->")
    of_x, of_kernel = inputs.split(",")
    return (
        product(f"{out},{of_kernel}->{of_x}", gradient, kernel),
        product(f"{of_x},{out}->{of_kernel}", x, gradient),
    )


contract.defvjp(_contract_forward, _contract_backward)


def plain(equation: str, left: jax.Array, right: jax.Array) -> jax.Array:
    """The product in the type of its operands."""
    return jnp.einsum(equation, left, right)


def int8(equation: str, left: jax.Array, right: jax.Array) -> jax.Array:
    """The product of both operands rounded to int8, each scaled by its largest value along what is summed over."""
    import qwix  # only this needs it

    inputs, out = equation.split("->")
    rounded = [
        qwix.quantize(operand, jnp.int8, channelwise_axes=tuple(i for i, letter in enumerate(term) if letter in out))
        for operand, term in zip((left, right), inputs.split(","), strict=True)
    ]
    product: jax.Array = qwix.einsum(equation, *rounded)
    return product.astype(left.dtype)


# By the value of `quantization`.
PRODUCTS: dict[str, Product] = {"": plain, "int8": int8}
