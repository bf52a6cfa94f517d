"""Turns activations and a kernel into their contraction, in the numbers asked for and with its gradients spelt out."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

if TYPE_CHECKING:
    import qwix

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
    """The product of both operands rounded to int8, each scaled by its largest value along what is summed over.

    Scales, rounding and range are those of AQT in MaxText, but for the gradients, which it rounds at random (decision
    0055).
    """
    import qwix  # only this needs it

    inputs, out = equation.split("->")

    def rounded(operand: jax.Array, term: str) -> "qwix.QArray":
        kept = tuple(axis for axis, letter in enumerate(term) if letter in out)
        return within_127(qwix.quantize(operand, jnp.int8, channelwise_axes=kept))

    product: jax.Array = qwix.einsum(equation, *map(rounded, (left, right), inputs.split(",")))
    return product.astype(left.dtype)


def within_127(rounded: "qwix.QArray") -> "qwix.QArray":
    """The same with -127 for -128.

    The largest value of each scale lies at ±127.5, so that the last bit of a division, which is another one on a mesh,
    decides whether it rounds to -127 or to -128.
    """
    return dataclasses.replace(rounded, qvalue=jnp.maximum(rounded.qvalue, -127))


# By the value of `quantization`.
PRODUCTS: dict[str, Product] = {"": plain, "int8": int8}
