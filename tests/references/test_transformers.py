"""Our decoders against Hugging Face's Llama, Mixtral and DeepSeek-V2, from the same weights on the same batches."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.references.decoders import decoder_config
from tests.references.names import to_transformers
from tests.references.our_step import draw_weights, make_batches, our_step

type Arrays = dict[str, Any]

pytestmark = pytest.mark.long
# float32 on both sides: the loss, logits and gradients by largest difference, the last relative to the largest gradient
LOSS, LOGITS, GRADIENTS = 1e-6, 5e-5, 1e-4
BALANCED = "mixtral, balanced"
JOBS = [(name, packed) for name in ("llama", "llama with flash", "mixtral", "deepseek") for packed in (False, True)]


@pytest.mark.parametrize(("name", "packed"), [*JOBS, (BALANCED, False)])
def test_a_decoder_equals_transformers(
    name: str,
    packed: bool,
    pure_nnx: bool,
    transformers_found: dict[Any, Arrays],
    worst: Callable[..., Any],
) -> None:
    expected = transformers_found[name, packed]
    config = decoder_config(name, packed=packed, pure_nnx=pure_nnx)
    batches = make_batches(config, 1, packed=packed)
    ours = our_step(config).train(draw_weights(config), batches)
    counted = batches[0]["weights"] > 0
    gradients = {key.removeprefix("gradients/"): value for key, value in expected.items() if key.startswith("grad")}
    found = to_transformers(config, ours.gradients, gradients=True)
    differences = {
        "loss": (abs(ours.loss - float(expected["loss"])), LOSS),
        "logits": (float(np.max(np.abs(ours.logits[counted] - expected["logits"][counted]))), LOGITS),
        "worst gradient, relative": (float(worst(found, gradients)[0]), GRADIENTS),
    }
    for quantity, (difference, limit) in differences.items():
        assert difference <= limit, (quantity, worst(found, gradients))


@pytest.mark.parametrize("name", ["llama", "llama with flash", "mixtral", "deepseek"])
def test_a_packed_text_alone_gives_the_same_bits(name: str, pure_nnx: bool) -> None:
    """Each text of a packed sequence, alone in a padded sequence of the same length, has the same logits."""
    config = decoder_config(name, packed=True, pure_nnx=pure_nnx)
    (batch,) = make_batches(config, 1, packed=True)
    weights = draw_weights(config)
    logits = our_step(config).read_logits(weights, batch)
    for text in (1, 2):
        alone = {key: np.where(batch["segment_ids"] == text, array, 0) for key, array in batch.items()}
        found = our_step(config).read_logits(weights, alone)
        kept = batch["segment_ids"] == text
        np.testing.assert_array_equal(found[kept], logits[kept])
