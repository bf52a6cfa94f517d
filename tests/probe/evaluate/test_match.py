"""Arrays of two arms are matched by meaning; layers are stacked and taken apart; a batch may have another shape."""

import numpy as np
import pytest

from maxview_probe.evaluate.match import find_layer_axes, match
from maxview_probe.evaluate.recorded_step import Slot

pytestmark = pytest.mark.flows


def slot(meaning: str, *shape: int, role: str = "parameter") -> Slot:
    return Slot(role, meaning, shape, "f32")


def test_equal_meanings_match_in_any_order() -> None:
    found = match([slot("a.w", 2), slot("b.w", 2)], [slot("b.w", 2), slot("a.w", 2), slot("c.w", 2)])
    assert [source.places if source else None for source in found] == [(1,), (0,), None]


def test_one_path_with_another_shape_has_no_counterpart() -> None:
    assert match([slot("a.w", 2)], [slot("a.w", 3)]) == [None]


def test_arrays_of_one_meaning_match_in_their_order() -> None:
    """As the weights and the sum of their gradients, in a loop of several functions."""
    arrays = [slot("a", 2), slot("b", 3), slot("a", 2), slot("b", 3)]
    assert [source.places if source else None for source in match(arrays, arrays)] == [(0,), (1,), (2,), (3,)]


def test_a_batch_is_reshaped() -> None:
    batch = np.arange(8)
    (found,) = match([slot("inputs", 8, role="data")], [slot("inputs", 4, 2, role="data")])
    assert found is not None
    np.testing.assert_array_equal(found.take([batch]), batch.reshape(4, 2))


def test_layers_by_repetition_and_stage_are_layers_in_their_order() -> None:
    layers = np.arange(12).reshape(6, 2)
    (found,) = match([slot("layers.w", 6, 2)], [slot("layers.w", 3, 2, 2)])
    assert found is not None
    np.testing.assert_array_equal(found.take([layers])[1, 1], layers[3])
    assert match([slot("w", 6)], [slot("w", 2, 6)]) == [None]


def test_layers_are_stacked_along_the_axis_that_fits_all_arrays() -> None:
    """Of `w` both axes of 2 fit; the axis of `scale` decides."""
    single = [slot(f"layers_{n}.{name}", *shape) for n in (1, 0) for name, shape in (("w", (3, 2)), ("scale", (3,)))]
    stacked = [slot("layers.w", 3, 2, 2), slot("layers.scale", 3, 2)]
    values = [np.random.default_rng(n).normal(size=one.shape) for n, one in enumerate(single)]
    found = match(single, stacked)
    assert all(found)
    np.testing.assert_array_equal(found[0].take(values), np.stack([values[2], values[0]], axis=1))  # type: ignore[union-attr]
    np.testing.assert_array_equal(found[1].take(values), np.stack([values[3], values[1]], axis=1))  # type: ignore[union-attr]
    whole = [source.take(values) for source in found if source]
    back = match(stacked, single)
    for source, value in zip(back, values, strict=True):
        assert source is not None
        np.testing.assert_array_equal(source.take(whole), value)


def test_numbers_that_are_no_layers_stay() -> None:
    names = ["layers.mlp.wi_0", "layers.mlp.wi_1"]
    found = match([slot(name, 3, 2) for name in names], [slot(name, 3, 2) for name in names])
    assert [source.places for source in found if source] == [(0,), (1,)]


def test_stacked_layers_have_the_axis_that_all_their_arrays_share() -> None:
    stacked = [slot("mu.layers.wi", 6, 4, 8), slot("mu.layers.wo", 8, 4, 6), slot("mu.layers.scale", 6, 4)]
    others = [slot("embedding", 6, 4), slot("layers_0.wi", 6, 8), slot("layers_0.wo", 8, 6)]
    assert find_layer_axes([*stacked, *others]) == [1, 1, 1, None, None, None]


def test_two_trainers_name_one_array_in_similar_words() -> None:
    """Our trainer and MaxText: experts, latent attention, metrics. What two arrays could mean stays unmatched."""
    ours = [slot("layers.mlp.routed_experts.gate.kernel", 4, 2), slot("layers.mlp.shared_experts.wi_0.kernel", 4, 2),
            slot("layers.self_attention.query.wq_a.kernel", 4, 2), slot("loss", role="metric"),
            slot("layers.first.scale", 4), slot("layers.second.scale", 4), slot("layers.mlp.wo", 4)]  # fmt: skip
    theirs = [slot("scalar.learning.loss", role="metric"), slot("layers.self_attention.wq_a.kernel", 4, 2),
              slot("layers.Block_0.shared_experts.wi_0.kernel", 4, 2),
              slot("layers.Block_0.MoeBlock_0.gate.kernel", 4, 2), slot("scalar.learning.lm_loss", role="metric"),
              slot("layers.norm.scale", 4), slot("layers.mlp.wi", 4)]  # fmt: skip
    found = match(theirs, ours)
    assert [source.places if source else None for source in found] == [(3,), (2,), (1,), (0,), None, None, None]
