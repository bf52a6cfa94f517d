"""Our steps against MaxText's, from the same weights on the same batches, where an environment has MaxText 0.2.4."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from configs.schema import TrainConfig
from model.train.flops import step_flops
from tasks.resolve.trainers.maxtext import MaxText, find_maxtext, translate_config, write_words
from tests.references.names import to_maxtext
from tests.references.our_step import draw_gradients, draw_weights, make_batches, mini, our_step
from tests.references.run_program import run_program

type Arrays = dict[str, Any]

STEPS = 10
# MaxText's name of an array in a batch <- ours
BATCH = {
    "inputs": "inputs", "inputs_position": "positions", "inputs_segmentation": "segment_ids",
    "targets": "targets", "targets_position": "positions", "targets_segmentation": "segment_ids",
}  # fmt: skip
# its load-balancing loss is defined differently (docs/maxtext.md)
MLA = {"num_experts": 4, "num_experts_per_tok": 2, "shared_experts": 1, "first_num_dense_layers": 1,
       "base_num_kv_heads": 4, "load_balance_loss_weight": 0.0}  # fmt: skip
# name -> case, changes, packed
JOBS: dict[str, tuple[str, dict[str, Any], bool]] = {
    "dense": ("01_base", {"warmup_steps_fraction": 0.2}, False),
    "packed": ("01_base", {}, True),
    "mixtral": ("06_moe", {}, False),
    "deepseek": ("07_mla", MLA, True),
    "int8": ("04_int8", {}, False),
}
OPTIMIZED = ("dense", "packed", "deepseek")  # also stepped with given gradients
RIGHT = ("dense", "packed", "mixtral", "deepseek")


pytestmark = [
    pytest.mark.long,
    pytest.mark.by_hand,
    pytest.mark.skipif(
        "MAXVIEW_MAXTEXT_PYTHON" not in os.environ,
        reason="MAXVIEW_MAXTEXT_PYTHON does not name the Python of an environment with MaxText 0.2.4",
    ),
]


def config_of(name: str, *, pure_nnx: bool = True) -> TrainConfig:
    """A job's config. The learning rate does not amplify last bits within ten steps of a small model."""
    case, changes, packed = JOBS[name]
    config: TrainConfig = mini(case, pure_nnx=pure_nnx, learning_rate=1e-3, **changes)
    return config.replace(dataset_type="grain") if packed else config


def write_job(maxtext: MaxText, name: str, folder: Path) -> None:
    """A job for `maxtext_steps.py`. The arguments are our usual ones, except for two that its CPU needs."""
    config = config_of(name).replace(dataset_type="synthetic")
    words = translate_config(config, maxtext, folder / "run", metrics_file="", alone=True)
    argv = [maxtext.base_config, *write_words(words), "megablox=false"]
    (folder / "words.json").write_text(json.dumps(argv), encoding="utf-8")
    (folder / "to-nearest").touch()  # decision 0055
    weights = draw_weights(config)
    np.savez(folder / "weights.npz", **{to_maxtext(path): array for path, array in weights.items()})
    if name in OPTIMIZED:
        given = draw_gradients(weights, STEPS)
        stacked = {to_maxtext(path): np.stack([one[path] for one in given]) for path in weights}
        np.savez(folder / "gradients.npz", **stacked)
    batches = make_batches(config, STEPS, packed=JOBS[name][2])
    np.savez(folder / "batches.npz", **{key: np.stack([one[ours] for one in batches]) for key, ours in BATCH.items()})


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Arrays]:
    """MaxText's results, all computed in one process: loading it takes half a minute."""
    maxtext = find_maxtext(Path(os.environ["MAXVIEW_MAXTEXT_PYTHON"]))
    folders = {name: tmp_path_factory.mktemp(name) for name in JOBS}
    for name, folder in folders.items():
        write_job(maxtext, name, folder)
    run_program(maxtext.python, "maxtext_steps.py", *folders.values())
    return {name: dict(np.load(folder / "found.npz")) for name, folder in folders.items()}


@pytest.fixture(scope="module")
def ours() -> Callable[[str], Any]:
    """Our NNX trainer's results for a job; the floors prove that Linen's program is the same."""

    def train(name: str) -> Any:
        config = config_of(name)
        batches = make_batches(config, STEPS, packed=JOBS[name][2])
        return our_step(config).train(draw_weights(config), batches)

    return train


def distance(found: Arrays, expected: Arrays, prefix: str) -> float:
    """The largest distance of an array from MaxText's, relative to the length of MaxText's."""
    pairs = ((array, expected[f"{prefix}/{to_maxtext(path)}"]) for path, array in found.items())
    return max(float(np.linalg.norm(array - theirs) / np.linalg.norm(theirs)) for array, theirs in pairs)


def unexplained(config: TrainConfig, found: Any, expected: Arrays) -> float:
    """The largest difference of an element after the first step that the gradients' difference does not explain.

    Adam's first step is g / (|g| + epsilon) in size: where |g| is near epsilon, the last bits of a gradient matter.
    """
    share = found.steps[0]["grad_norm"] / found.steps[0]["raw_grad_norm"]
    their_share = expected["learning/grad_norm"][0] / expected["learning/raw_grad_norm"][0]
    worst = 0.0
    for path, array in found.once.items():
        ours, theirs = found.gradients[path] * share, expected[f"gradients/{to_maxtext(path)}"] * their_share
        updates = [g / (np.abs(g) + config.adam_eps) for g in (np.float64(ours), np.float64(theirs))]
        explained = -config.learning_rate * (updates[0] - updates[1])
        other = np.float64(expected[f"once/{to_maxtext(path)}"])
        worst = max(worst, float(np.max(np.abs(array - other - explained)) / np.max(np.abs(other))))
    return worst


def column(found: Any, name: str) -> np.ndarray:
    return np.asarray([step[name] for step in found.steps])


def furthest(found: Arrays, expected: Arrays, prefix: str) -> float:
    """The largest difference of any element, relative to the largest element of its array."""
    pairs = ((array, expected[f"{prefix}/{to_maxtext(path)}"]) for path, array in found.items())
    return max(float(np.max(np.abs(array - theirs)) / np.max(np.abs(theirs))) for array, theirs in pairs)


@pytest.mark.parametrize("name", OPTIMIZED)
def test_the_optimizer_equals_maxtexts_from_the_same_gradients(
    name: str, pure_nnx: bool, theirs: dict[str, Arrays]
) -> None:
    """Bias correction, epsilon, decay, clipping by the global norm, schedule, dtype of the moments: every element."""
    config = config_of(name, pure_nnx=pure_nnx)
    weights = draw_weights(config)
    found = our_step(config).step_with(weights, draw_gradients(weights, STEPS))
    distances = {
        "optimizer, one step": furthest(found[0], theirs[name], "given-once"),
        "optimizer, ten steps": furthest(found[-1], theirs[name], "given"),
    }
    assert max(distances.values()) <= 1e-6, distances


@pytest.mark.parametrize("name", RIGHT)
def test_ten_steps_equal_maxtexts(name: str, theirs: dict[str, Arrays], ours: Callable[[str], Any]) -> None:
    expected, found = theirs[name], ours(name)
    # with a warm-up the learning rate begins at 0, and the first step would prove nothing
    distances = {
        "loss": (abs(found.loss - float(expected["loss"])), 1e-6),
        "worst gradient, relative": (distance(found.gradients, expected, "gradients"), 1e-4),
        "losses of ten steps": (float(np.max(np.abs(column(found, "loss") - expected["learning/loss"]))), 1e-5),
    }  # fmt: skip
    if name == "dense":
        distances["parameters after ten steps"] = distance(found.params, expected, "params"), 1e-5
    else:  # not the whole difference: the last bits of the smallest gradients are those of the processor
        distances["one step, beyond its gradients' difference"] = unexplained(config_of(name), found, expected), 1e-6
    for quantity, (far, limit) in distances.items():
        assert far <= limit, quantity
    for key, tolerance in (("lm_loss", 1e-5), ("grad_norm", 1e-5), ("raw_grad_norm", 1e-4), ("param_norm", 1e-6)):
        np.testing.assert_allclose(column(found, key), expected[f"learning/{key}"], rtol=tolerance)
    np.testing.assert_allclose(np.exp(column(found, "lm_loss")), expected["learning/perplexity"], rtol=2e-5)
    np.testing.assert_array_equal(column(found, "total_weights"), expected["learning/total_weights"])
    rates = expected["learning/current_learning_rate"]
    np.testing.assert_allclose(column(found, "learning_rate"), rates, rtol=1e-6, atol=1e-12)
    flops = step_flops(config_of(name))
    np.testing.assert_allclose([flops.total_t, flops.weights_t, flops.attention_t], expected["tflops"], rtol=1e-12)
    moments = {str(kind) for key, kind in expected.items() if key.startswith("state/") and "/mu/" in key}
    assert moments <= {"float32"}


def test_the_load_balancing_loss_of_mixtral_equals_ours(theirs: dict[str, Arrays], ours: Callable[[str], Any]) -> None:
    assert ours("mixtral").steps[0]["moe_lb_loss"] == pytest.approx(float(theirs["mixtral"]["moe_lb_loss"]), rel=1e-6)


def test_int8_equals_aqt_without_random_rounding(theirs: dict[str, Arrays], ours: Callable[[str], Any]) -> None:
    """A value at the edge of a step may be rounded to either side: a gradient may then differ by that one step."""
    found = ours("int8")
    distances = {
        "loss": (abs(found.loss - float(theirs["int8"]["loss"])), 1e-5),
        "worst gradient, relative": (distance(found.gradients, theirs["int8"], "gradients"), 1e-2),
    }
    for quantity, (far, limit) in distances.items():
        assert far <= limit, quantity
