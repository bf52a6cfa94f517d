"""Changes of a trainer that only round differently: edits of its source, and two settings of one computation."""

from typing import NamedTuple

from benchmarks.planted_changes import ATTENTION, DECODER, EXPERTS, LAYERS, LOSS, OPTIMIZER, PRODUCTS, PlantedChange

ROOT = ("(wide * jax.lax.rsqrt(mean_square + epsilon))", "(wide / jnp.sqrt(mean_square + epsilon))")
MEAN = (
    "jnp.mean(jnp.square(wide), axis=-1, keepdims=True)",
    'jnp.einsum("BLE,BLE->BL", wide, wide)[..., None] * (1 / wide.shape[-1])',
)
SOFTMAX = "weights_BHLS = jax.nn.softmax(jnp.where(mask_BLS[:, None], logits_BHLS, MASKED), axis=-1)"
EXPONENTS = """masked_BHLS = jnp.where(mask_BLS[:, None], logits_BHLS, -jnp.inf)
    weights_BHLS = jnp.exp(masked_BHLS - jax.nn.logsumexp(masked_BHLS, axis=-1, keepdims=True))"""
TRANSPOSED = (
    'jnp.einsum("BLE,EV->BLV", x_BLE, kernel_EV)',
    "jnp.moveaxis(kernel_EV.T @ jnp.moveaxis(x_BLE, -1, 1), 1, -1)",
)


OLDER_JAX = ("jax==0.10.2", "flax==0.12.8")


class SettingsPair(NamedTuple):
    """Two settings of the trainer that must compute one function."""

    name: str
    case: str
    baseline: tuple[str, ...]
    candidate: tuple[str, ...]
    targets: tuple[str, str] = ("cpu", "cpu")
    packages: tuple[str, ...] = ()  # other versions, for the candidate


WRAPPED = (
    "return optax.adamw(",
    "return (lambda *given, **named: optax.masked(optax.adamw(*given, **named), lambda tree: "
    "jax.tree.map(lambda _: True, tree)))(",
)

EDITS = (
    *(
        PlantedChange(f"x / √v for x · rsqrt(v), {case}", LAYERS, *ROOT, "", case)
        for case in ("01_base", "16_f32_exact", "03_dropout", "04_int8", "06_moe", "07_mla", "08_packing")
    ),
    *(
        PlantedChange(f"mean of squares as a product, {case}", LAYERS, *MEAN, "", case)
        for case in ("01_base", "07_mla")
    ),
    *(
        PlantedChange(f"softmax as exp(x − logsumexp), masked by −∞, {case}", ATTENTION, SOFTMAX, EXPONENTS, "", case)
        for case in ("01_base", "16_f32_exact", "03_dropout")
    ),
    *(
        PlantedChange(f"logits transposed, {case}", LOSS, *TRANSPOSED, "", case)
        for case in ("01_base", "04_int8")
    ),
    PlantedChange(
        "silu as x · σ(x)", DECODER, 'jax.nn.silu(widen("wi_0"))',
        '(lambda gate: gate * jax.nn.sigmoid(gate))(widen("wi_0"))', "", "01_base",
    ),
    PlantedChange(
        "rotation with the signs turned", LAYERS, "[first * cos - second * sin,", "[-(second * sin - first * cos),", "",
        "01_base",
    ),
    PlantedChange(
        "keys turned before the heads are shared", ATTENTION, 'jnp.einsum("BLHK,BSHK->BHLS", query_BLHK, key_BSHK, ',
        'jnp.einsum("BSHK,BLHK->BHLS", key_BSHK, query_BLHK, ', "", "01_base",
    ),
    PlantedChange(
        "JAX's own gradients of products", PRODUCTS, "contract.defvjp(_contract_forward, _contract_backward)",
        "contract = lambda product, equation, x, kernel: product(equation, x, kernel)", "", "16_f32_exact",
    ),
    PlantedChange(
        "JAX's own gradients of attention", ATTENTION, "attend.defvjp(_attend_forward, _attend_backward)",
        "attend = lambda *given: _attend_forward(*given)[0]", "", "16_f32_exact",
    ),
    PlantedChange(
        "JAX's own gradient of the loss", LOSS, "cross_entropy.defvjp(_forward, _backward)",
        "cross_entropy = lambda *given: _forward(*given)[0]", "", "16_f32_exact",
    ),
    PlantedChange(
        "the loss as a sum of two", LOSS, "jnp.sum((log_normalizer_BL - target_logit_BL) * weights_BL)",
        "jnp.sum(log_normalizer_BL * weights_BL) - jnp.sum(target_logit_BL * weights_BL)", "", "16_f32_exact",
    ),
    PlantedChange(
        "AdamW inside of optax.masked", OPTIMIZER, *WRAPPED, "", "01_base",
    ),
    PlantedChange(
        "clipping divides by a ratio", OPTIMIZER, "x * factor.astype(x.dtype)", "x / (1 / factor).astype(x.dtype)", "",
        "01_base", ("gradient_clipping_threshold=0.1",),
    ),
    PlantedChange(
        "experts' outputs summed by a product", EXPERTS, "jnp.sum(local_TkE * weights_Tk[:, :, None], axis=1)",
        'jnp.einsum("tke,tk->te", local_TkE, weights_Tk)', "", "06_moe",
    ),
)  # fmt: skip

SETTINGS = (
    *(
        SettingsPair(f"remat full and none, {case}", case, ("remat_policy=full",), ("remat_policy=none",))
        for case in ("01_base", "06_moe", "03_dropout")
    ),
    *(
        SettingsPair(f"scanned and unrolled, {case}", case, (), ("scan_layers=false",))
        for case in ("01_base", "04_int8", "07_mla", "03_dropout")
    ),
    SettingsPair(
        "8 at once and 4 × 2", "01_base", ("per_device_batch_size=8",),
        ("per_device_batch_size=2", "gradient_accumulation_steps=4"),
    ),
    SettingsPair("float32 at two precisions", "16_f32_exact", (), ("matmul_precision=default",)),
    SettingsPair("Linen and NNX", "01_base", (), ("pure_nnx=true",)),
    *(
        SettingsPair(f"JAX 0.12 and 0.10, {case}", case, (), ("pure_nnx=true",), packages=OLDER_JAX)
        for case in ("01_base", "03_dropout", "06_moe")
    ),
    SettingsPair("flash and dot product", "15_flash_attention", (), ("attention=dot_product",)),
    SettingsPair(
        "one device and fsdp 8", "01_base", ("per_device_batch_size=8",), ("per_device_batch_size=1",),
        ("cpu", "cpu-8"),
    ),
    SettingsPair(
        "one device and fsdp 2 × tensor 4", "01_base", ("per_device_batch_size=8",),
        ("per_device_batch_size=1", "ici_fsdp_parallelism=2", "ici_tensor_parallelism=4"), ("cpu", "cpu-8"),
    ),
    SettingsPair(
        # in float32, because XLA's CPU compiler aborts at the experts' reduction in bfloat16
        "experts on 4 × 2 devices and on one", "06_moe", ("per_device_batch_size=8", "dtype=float32"),
        ("per_device_batch_size=1", "ici_expert_parallelism=4", "dtype=float32"), ("cpu", "cpu-8"),
    ),
)  # fmt: skip
