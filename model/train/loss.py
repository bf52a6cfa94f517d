"""The cross-entropy loss of the last activations and the kernel of the logits, whose gradient is computed in blocks."""

import math

import jax
import jax.numpy as jnp

from model.decoder.sharding import RULES, constrain

LARGEST_BLOCK = 8192  # most vocabulary entries per block, if `count_blocks` can split the vocabulary
LANES = 128  # a block whose size is a multiple of this is sliced without a copy

type Saved = tuple[jax.Array, jax.Array, jax.Array, jax.Array, jax.Array, jax.Array]


@jax.custom_vjp
def cross_entropy(x_BLE: jax.Array, kernel_EV: jax.Array, targets_BL: jax.Array, weights_BL: jax.Array) -> jax.Array:
    """Return the sum of weight times negative log-likelihood of the targets, in nats and float32.

    The logits x·kernel are stored once, in the dtype of x and kernel. Their gradient, softmax minus one-hot, is
    computed in blocks and never stored completely, unless `count_blocks` is 1. Each block adds its part to the
    gradient of x and writes its columns of the kernel's gradient. With a large vocabulary, logits and gradients
    determine the peak memory of the step (decision 0024).
    """
    return _forward(x_BLE, kernel_EV, targets_BL, weights_BL)[0]


def _forward(
    x_BLE: jax.Array, kernel_EV: jax.Array, targets_BL: jax.Array, weights_BL: jax.Array
) -> tuple[jax.Array, Saved]:
    # gather the kernel once for both passes; the compiler would gather it once per block, at many times the cost
    kernel_EV = constrain(kernel_EV, "activation_embed", "vocab")
    logits_BLV = jnp.einsum("BLE,EV->BLV", x_BLE, kernel_EV)
    logits_BLV = constrain(logits_BLV, "activation_batch", "activation_length", "activation_vocab")
    log_normalizer_BL = jax.nn.logsumexp(logits_BLV.astype(jnp.float32), axis=-1)
    target_logit_BL = jnp.take_along_axis(logits_BLV, targets_BL[:, :, None], axis=-1)[:, :, 0].astype(jnp.float32)
    loss = jnp.sum((log_normalizer_BL - target_logit_BL) * weights_BL)
    return loss, (x_BLE, kernel_EV, logits_BLV, targets_BL, weights_BL, log_normalizer_BL)


def _backward(saved: Saved, gradient: jax.Array) -> tuple[jax.Array, jax.Array, None, None]:
    x_BLE, kernel_EV, logits_BLV, targets_BL, weights_BL, log_normalizer_BL = saved
    blocks = count_blocks(kernel_EV.shape[1])
    width = kernel_EV.shape[1] // blocks
    scale_BL1 = (gradient * weights_BL)[:, :, None]

    def add_block(grad_x_BLE: jax.Array, block: jax.Array) -> tuple[jax.Array, jax.Array]:
        start = block * width
        logits_BLW = jax.lax.dynamic_slice_in_dim(logits_BLV, start, width, axis=2)
        kernel_EW = jax.lax.dynamic_slice_in_dim(kernel_EV, start, width, axis=1)
        softmax_BLW = jnp.exp(logits_BLW.astype(jnp.float32) - log_normalizer_BL[:, :, None])
        tokens_BLW = start + jax.lax.broadcasted_iota(targets_BL.dtype, logits_BLW.shape, 2)
        grad_logits_BLW = ((softmax_BLW - (tokens_BLW == targets_BL[:, :, None])) * scale_BL1).astype(logits_BLV.dtype)
        grad_kernel_EW = constrain(jnp.einsum("BLE,BLW->EW", x_BLE, grad_logits_BLW), "embed_vocab", "vocab")
        grad_x_BLE += jnp.einsum("BLW,EW->BLE", grad_logits_BLW, kernel_EW).astype(jnp.float32)
        return grad_x_BLE, grad_kernel_EW

    zeros_BLE = jnp.zeros(x_BLE.shape, jnp.float32)
    grad_x_BLE, grad_kernel_NEW = jax.lax.scan(add_block, zeros_BLE, jnp.arange(blocks, dtype=targets_BL.dtype))
    grad_kernel_EV = jnp.moveaxis(grad_kernel_NEW, 0, 1).reshape(kernel_EV.shape)
    return grad_x_BLE.astype(x_BLE.dtype), grad_kernel_EV, None, None


cross_entropy.defvjp(_forward, _backward)


def count_blocks(vocabulary: int) -> int:
    """Return the number of equal blocks, each a multiple of LANES and at most LARGEST_BLOCK.

    Returns 1 if the vocabulary is no multiple of LANES, or if the mesh splits the kernel's vocabulary axis.
    """
    axis = RULES["vocab"]
    if jax.sharding.get_abstract_mesh().shape.get(axis, 1) > 1 or vocabulary % LANES:
        return 1
    lanes = vocabulary // LANES
    fewest = math.ceil(vocabulary / LARGEST_BLOCK)
    return next(blocks for blocks in range(fewest, lanes + 1) if lanes % blocks == 0)
