"""Our decoders against Hugging Face's Llama, Mixtral and DeepSeek-V2, from the same weights on the same batches."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.references.decoders import decoder_config, write_job
from tests.references.names import to_transformers
from tests.references.our_step import draw_weights, make_batches, our_step, widened_gradients
from tests.references.run_program import run_program

type Arrays = dict[str, Any]

pytestmark = [pytest.mark.long, pytest.mark.by_hand]  # they need torch
# float32 on both sides: the loss, logits and gradients by largest difference, the last relative to the largest gradient
LOSS, LOGITS, GRADIENTS = 1e-6, 5e-5, 1e-4
FUNCTION = 1e-12  # of the loss and of the largest gradient, in float64 on both sides
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


@pytest.mark.parametrize("name", ["llama", "mixtral", "deepseek"])
def test_a_decoder_is_the_function_of_transformers(
    name: str, torch_python: str, tmp_path: Path, worst: Callable[..., Any]
) -> None:
    """In float64: what is left is rounding of 1e-16. A constant rounded to float32 would be 1e-8."""
    write_job(tmp_path, name, packed=True, float64=True)
    run_program(torch_python, "hf_decoder.py", tmp_path)
    expected = dict(np.load(tmp_path / "found.npz"))
    config = decoder_config(name, packed=True, pure_nnx=True)
    loss, gradients = widened_gradients(config, draw_weights(config), make_batches(config, 1, packed=True)[0])
    assert abs(loss - float(expected["loss"])) <= FUNCTION * loss
    theirs = {key.removeprefix("gradients/"): value for key, value in expected.items() if key.startswith("grad")}
    assert all(value.dtype == np.float64 for value in theirs.values())
    found = to_transformers(config, gradients, gradients=True, kind=np.float64)
    assert worst(found, theirs)[0] <= FUNCTION, worst(found, theirs)


@pytest.mark.parametrize("name", ["llama", "llama with flash", "mixtral", "deepseek"])
def test_a_packed_text_alone_gives_the_same_bits(name: str) -> None:
    """Each text of a packed sequence, alone in a padded sequence of the same length, has the same logits.

    In Linen only: NNX lowers the same program (tests/model/test_floors.py).
    """
    config = decoder_config(name, packed=True, pure_nnx=False)
    (batch,) = make_batches(config, 1, packed=True)
    weights = draw_weights(config)
    logits = our_step(config).read_logits(weights, batch)
    for text in (1, 2):
        alone = {key: np.where(batch["segment_ids"] == text, array, 0) for key, array in batch.items()}
        found = our_step(config).read_logits(weights, alone)
        kept = batch["segment_ids"] == text
        np.testing.assert_array_equal(found[kept], logits[kept])
