"""Multiplies activations by a kernel (einsum), in their dtype or in int8, with explicit gradients."""

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
    """Return `product(equation, x, kernel)`. Each letter of the equation must occur in exactly two of its three terms.

    The gradients are explicit because JAX's own gradient of the kernel multiplies in the other order and transposes the
    result. XLA has no fast CPU matmul for that: this product takes about as long as the rest of the step.
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
    inputs, out_term = equation.split("->")
    x_term, kernel_term = inputs.split(",")
    return (
        product(f"{out_term},{kernel_term}->{x_term}", gradient, kernel),
        product(f"{x_term},{out_term}->{kernel_term}", x, gradient),
    )


contract.defvjp(_contract_forward, _contract_backward)


def plain_product(equation: str, left: jax.Array, right: jax.Array) -> jax.Array:
    """Return the product in the dtype of its operands."""
    return jnp.einsum(equation, left, right)


def int8(equation: str, left: jax.Array, right: jax.Array) -> jax.Array:
    """Quantise both operands to int8, and return their product in the dtype of `left`. Each operand has one scale per
    slice along the contracted axes.

    Scales, rounding and range are those of AQT in MaxText, but AQT rounds gradients stochastically (decision 0055).
    """
    import qwix  # slow to import, and other products do not need it

    inputs, out_term = equation.split("->")

    def quantize(operand: jax.Array, term: str) -> "qwix.QArray":
        kept = tuple(axis for axis, letter in enumerate(term) if letter in out_term)
        return within_127(qwix.quantize(operand, jnp.int8, channelwise_axes=kept))

    product: jax.Array = qwix.einsum(equation, *map(quantize, (left, right), inputs.split(",")))
    return product.astype(left.dtype)


def within_127(quantized: "qwix.QArray") -> "qwix.QArray":
    """Replace -128 by -127.

    The largest value of a slice is scaled to ±127.5. The last bit of the scaled value, which can depend on the mesh,
    decides whether it is rounded to -127 or to -128.
    """
    return dataclasses.replace(quantized, qvalue=jnp.maximum(quantized.qvalue, -127))


# value of `quantization` -> product
PRODUCTS: dict[str, Product] = {"": plain_product, "int8": int8}
