"""A constant changed in both APIs at once: the three floors compare the two with each other and hold, but the
references detect it.
"""

import importlib
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import model
from tests.references.decoders import decoder_config, write_plain_job
from tests.references.names import to_transformers
from tests.references.our_step import Ours, draw_weights, make_batches, our_step
from tests.references.run_program import run_program

type Arrays = dict[str, Any]

pytestmark = [pytest.mark.long, pytest.mark.by_hand]  # they test the tests of the references
STEPS = 6
BOTH_DECODERS = ("decoder/decoder_linen", "decoder/decoder_nnx")
CAUSAL = "jnp.tril(jnp.ones((length, length), dtype=jnp.bool_))"
SEGMENTS = "causal_BLS & (segment_ids_BL[:, :, None] == segment_ids_BL[:, None, :])"
NORMALISED = "weights_BLk /= jnp.sum(weights_BLk, axis=-1, keepdims=True)"
REPEATED, TILED = "jnp.repeat(x_BSGK, heads // x_BSGK.shape[2], axis=2)", "jnp.tile(x_BSGK, (1, 1, 2, 1))"
NO_NORMS = "weight_decay=config.adam_weight_decay, mask=lambda p: jax.tree.map(lambda x: x.ndim > 2, p)"
# name -> the decoder of the reference, files, text before, text after
MUTATIONS: dict[str, tuple[str, tuple[str, ...], str, str]] = {
    "epsilon of norms": ("llama", ("decoder/layers",), "mean_square + epsilon", "mean_square + 10 * epsilon"),
    "base of rotary embeddings": (
        "llama",
        ("decoder/layers",),
        "config.rope_max_timescale **",
        "(2.0 * config.rope_max_timescale) **",
    ),
    "sense of rotation": ("llama", ("decoder/layers",), "second * cos + first * sin", "second * cos - first * sin"),
    "scale of latent attention": ("deepseek", ("decoder/layers",), "(nope + rope) ** -0.5", "nope**-0.5"),
    "rotary key of latent attention": (
        "deepseek",
        ("decoder/layers",),
        "rotary(rope_key_BLK[:, :, None, :], context)",
        "rope_key_BLK[:, :, None, :]",
    ),
    "causal mask": ("llama", ("decoder/attention",), CAUSAL, CAUSAL[:-1] + ", k=1)"),
    "mask between texts": ("llama", ("decoder/attention",), SEGMENTS, "causal_BLS"),
    "which heads share a key": ("llama", ("decoder/attention",), REPEATED, TILED),
    "gradient of softmax": (
        "llama",
        ("decoder/attention",),
        "grad_weights_BHLS - mean_BHL[..., None]",
        "grad_weights_BHLS",
    ),
    "normalised routing": ("mixtral", ("decoder/experts",), NORMALISED, "pass"),
    "balancing loss": ("mixtral, balanced", ("decoder/experts",), "count**2", "count"),
    "activation of experts": ("mixtral", ("decoder/experts",), "jax.nn.silu(jax.lax", "jax.nn.gelu(jax.lax"),
    "activation of the MLP": ("llama", BOTH_DECODERS, "jax.nn.silu(", "jax.nn.gelu("),
    "weights of predictions": (
        "llama",
        ("train/loss",),
        "- target_logit_BL) * weights_BL",
        "- target_logit_BL) * jnp.max(weights_BL)",
    ),
    "gradient of the loss": ("llama", ("train/loss",), "((softmax_BLW - ", "((0.99 * softmax_BLW - "),
    "first beta": ("llama", ("train/optimizer",), "b1=config.adam_b1", "b1=0.91"),
    "second beta": ("llama", ("train/optimizer",), "b2=config.adam_b2", "b2=0.96"),
    "epsilon of AdamW": ("llama", ("train/optimizer",), "eps=config.adam_eps,", "eps=2 * config.adam_eps,"),
    "decay": (
        "llama",
        ("train/optimizer",),
        "weight_decay=config.adam_weight_decay",
        "weight_decay=0.9 * config.adam_weight_decay",
    ),
    "mask of the decay": ("llama", ("train/optimizer",), "weight_decay=config.adam_weight_decay", NO_NORMS),
    "limit of clipping": ("llama", ("train/optimizer",), "limit / norm)", "1.1 * limit / norm)"),
    "end of the schedule": ("llama", ("train/optimizer",), "/ (decay - 1)", "/ decay"),
    "warm-up": (
        "llama",
        ("train/optimizer",),
        "optax.linear_schedule(0.0, peak, warmup)",
        "optax.linear_schedule(0.0, peak, warmup + 1)",
    ),
}


@contextmanager
def mutated(folder: Path, files: tuple[str, ...], before: str, after: str) -> Iterator[None]:
    """While the block runs, `model` is a copy with one text replaced, and imports get the copy."""
    copy = folder / "model"
    shutil.copytree(Path(model.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for file in files:
        path = copy / f"{file}.py"
        source = path.read_text(encoding="utf-8")
        assert before in source, before
        path.write_text(source.replace(before, after), encoding="utf-8")
    ours = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "model"}
    for name in ours:
        del sys.modules[name]
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.partition(".")[0] == "model"]:
            del sys.modules[name]
        sys.modules.update(ours)


@pytest.fixture(scope="module")
def plain_found(torch_python: str, tmp_path_factory: pytest.TempPathFactory) -> Arrays:
    """Steps of the plain trainer, with a warm-up and packed texts."""
    config, folder = config_of("llama", pure_nnx=False), tmp_path_factory.mktemp("plain")
    batches = make_batches(config, STEPS, packed=True)
    write_plain_job(folder, config, draw_weights(config), batches)
    run_program(torch_python, "plain_trainer.py", folder)
    return dict(np.load(folder / "found.npz"))


def config_of(decoder: str, *, pure_nnx: bool) -> Any:
    config = decoder_config(decoder, packed=decoder == "llama", pure_nnx=pure_nnx)
    # an epsilon as large as some gradients, so that it counts
    changes = {"steps": STEPS, "warmup_steps_fraction": 0.34, "learning_rate": 1e-3, "adam_eps": 1e-4}
    return config.replace(**changes)


def differences(decoder: str, found: Any, hf: Arrays, plain: Arrays, worst: Callable[..., Any]) -> list[str]:
    """The differences from the references, by the tolerances of the other tests."""
    config = config_of(decoder, pure_nnx=False)
    packed = decoder == "llama"
    counted = make_batches(config, 1, packed=packed)[0]["weights"] > 0
    gradients = {key.removeprefix("gradients/"): value for key, value in hf.items() if key.startswith("gradients/")}
    ours = to_transformers(config, found.gradients, gradients=True)
    wrong = {
        "loss": abs(found.loss - float(hf["loss"])) > 1e-6,
        "logits": np.max(np.abs(found.logits - hf["logits"])[counted]) > 5e-5,
        "gradients": worst(ours, gradients)[0] > 1e-4,
    }
    if packed:
        losses = np.asarray([step["loss"] for step in found.steps])
        params = {key.removeprefix("params/"): value for key, value in plain.items() if key.startswith("params/")}
        far = [np.linalg.norm(found.params[name] - params[name]) / np.linalg.norm(params[name]) for name in params]
        wrong["losses"] = np.max(np.abs(losses - plain["steps"][:, 0])) > 1e-5
        clipped = np.minimum(plain["steps"][:, 1], config.gradient_clipping_threshold)
        norms = np.asarray([step["grad_norm"] for step in found.steps])
        wrong["norms"] = np.max(np.abs(norms / clipped - 1)) > 1e-5
        wrong["parameters"] = max(far) > 1e-5
    return [name for name, is_wrong in wrong.items() if is_wrong]


@pytest.mark.parametrize("decoder", ["llama", "mixtral", "mixtral, balanced", "deepseek"])
def test_an_unchanged_model_agrees(
    decoder: str, transformers_found: Any, plain_found: Arrays, worst: Callable[..., Any]
) -> None:
    config = config_of(decoder, pure_nnx=True)
    batches = make_batches(config, STEPS, packed=decoder == "llama")
    found = our_step(config).train(draw_weights(config), batches)
    expected = transformers_found[decoder, decoder == "llama"]
    assert differences(decoder, found, expected, plain_found, worst) == []


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_change_of_both_apis_is_detected(
    name: str, transformers_found: Any, plain_found: Arrays, worst: Callable[..., Any], tmp_path: Path
) -> None:
    decoder, files, before, after = MUTATIONS[name]
    config = config_of(decoder, pure_nnx=bool(list(MUTATIONS).index(name) % 2))
    weights = draw_weights(config)
    batches = make_batches(config, STEPS, packed=decoder == "llama")
    with mutated(tmp_path, files, before, after):
        found = Ours(config).train(weights, batches)
    expected = transformers_found[decoder, decoder == "llama"]
    assert differences(decoder, found, expected, plain_found, worst)
