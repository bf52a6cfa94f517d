"""Arrays of a checkpoint and of a resumed run: paired by meaning, by bits and by shape; each fault has its word."""

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from maxview_probe.observe.array_notes import note_array
from maxview_probe.observe.meaning import meaning_of
from tasks.records.restored import NotedState, Restored, merge_notes
from tasks.verify.checkpoint_notes import note_checkpoint
from tasks.verify.compare_restored import compare_restored, note_values
from tasks.verify.layout import CheckpointError

DRAW = np.random.default_rng(1)
W = DRAW.normal(size=(4, 6, 6)).astype(np.float32)  # four layers
B = DRAW.normal(size=6).astype(np.float32)
BF16 = ml_dtypes.bfloat16


def arguments(arrays: dict[str, Any], call: int = 0) -> NotedState:
    """Return the state of a step that is given these arrays."""
    listed = [
        {"name": name, "role": meaning_of(name)[0], "meaning": meaning_of(name)[1], "fed": True}
        | {"shape": list(values.shape), **note_array(values)}
        for name, values in arrays.items()
    ]
    return merge_notes([json.loads(json.dumps({"step": "train_step", "call": call, "arrays": listed}))])


def checkpoint(arrays: dict[str, Any]) -> NotedState:
    return NotedState(
        arrays=tuple(note_values(n, ("parameter", n.removeprefix("params.")), v) for n, v in arrays.items())
    )


def words(found: Restored) -> dict[str, tuple[str, str]]:
    return {array.name: (array.word, array.detail) for array in found.arrays if array.word != "equal"}


@pytest.mark.parametrize(
    ("given", "word", "detail"),
    [
        (W, "", ""),
        (np.zeros_like(W), "zeros", "norm"),
        (W.astype(BF16), "cast", "float32 → bfloat16"),
        (W.astype(BF16).astype(np.float32), "cast", "float32 → bfloat16 → float32"),
        (W[[0, 2, 1, 3]], "moved", "layers 1, 2 along axis 0"),
        (np.ascontiguousarray(np.swapaxes(W, 1, 2)), "moved", "transposed"),
        (W * 2, "other", "× 2"),
        (np.concatenate([W[:3], np.zeros_like(W[3:])]), "zeros", "3 along axis 0"),
        (np.concatenate([W[:3], 1 + W[3:]]), "other", "3 along axis 0"),
        (W + 1, "other", "norm"),
    ],
)
def test_a_checkpoints_array_with_another_name_has_its_word(given: Any, word: str, detail: str) -> None:
    found = compare_restored(checkpoint({"params.layers.w": W}), arguments({"state.params['layers']['w']": given}))
    (array,) = found.arrays
    assert (array.word, array.is_fault) == (word or "equal", bool(word))
    assert detail in array.detail


def test_a_wider_type_that_keeps_every_value_is_no_fault() -> None:
    saved = checkpoint({"params.w": W.astype(BF16)})
    (array,) = compare_restored(saved, arguments({"params['w']": W.astype(BF16).astype(np.float32)})).arrays
    assert (array.word, array.detail, array.is_fault) == ("cast", "cast: bfloat16 → float32", False)


def test_unrolled_layers_and_a_stack_are_compared_layer_by_layer() -> None:
    saved = checkpoint({f"params.layers_{n}.w": W[n] for n in range(4)})
    assert compare_restored(saved, arguments({"params['layers']['w']": W})).holds is True
    found = compare_restored(saved, arguments({"params['layers']['w']": W[[1, 0, 2, 3]]}))
    assert {name.rpartition("[")[2]: word for name, (word, _) in words(found).items()} == {
        "layer 0]": "moved", "layer 1]": "moved",
    }  # fmt: skip


def test_arrays_without_a_common_name_are_paired_by_bits_and_by_shape() -> None:
    saved = NotedState(arrays=tuple(note_values(name, ("other state", name), v) for name, v in (("w", W), ("b", B))))
    found = compare_restored(saved, arguments({"weights": W, "bias": 3 * B, "batch": np.ones((2, 6), np.float32)}))
    assert words(found) == {"bias": ("other", "× 3")}
    assert len(found.arrays) == 2  # the batch is no part of a checkpoint


def test_a_random_stream_that_is_not_saved_and_begins_anew_is_a_fault() -> None:
    key = np.array([0, 7], np.uint32)
    fresh = arguments({"params['w']": W, "state['rng']": key})
    moved = arguments({"params['w']": W, "state['rng']": key + 1})
    saved = checkpoint({"params.w": W})
    assert words(compare_restored(saved, fresh, fresh=fresh)) == {
        "state['rng']": ("not saved", "not in the checkpoint, begins anew")
    }
    assert not compare_restored(saved, moved, fresh=fresh).faults


def test_a_random_stream_that_the_program_that_saved_lacks_is_no_fault() -> None:
    linen = arguments({"state.params['w']": W}, call=2)
    nnx = {
        "state['model']['w'].value": W,
        "state['model']['rngs']['dropout']['key'].value": np.array([0, 7], np.uint32),
    }
    assert words(compare_restored(linen, arguments(nnx), fresh=arguments(nnx))) == {
        "state['model']['rngs']['dropout']['key'].value": ("not saved", "the program that saved has none")
    }
    assert compare_restored(linen, arguments(nnx), fresh=arguments(nnx)).holds is True
    moments = {"state['optimizer']['opt_state'][0]['mu']['w'].value": np.zeros_like(W)}
    (fault,) = compare_restored(linen, arguments(nnx | moments), fresh=arguments(nnx | moments)).faults
    assert (fault.role, fault.word) == ("optimizer", "not saved")


def test_parts_of_several_processes_are_compared_with_the_same_boxes() -> None:
    boxes = [[[0, 4], [0, 3], [0, 6]], [[0, 4], [3, 6], [0, 6]]]
    cut = [W[tuple(slice(*ends) for ends in box)] for box in boxes]

    def processes(values: list[Any]) -> list[dict[str, Any]]:
        return [
            {"step": "f", "call": 0, "arrays": [{
                "name": "params['w']", "role": "parameter", "meaning": "w", "shape": [4, 6, 6], "dtype": "float32",
                "parts": [{"box": box, **note_array(part, is_whole=False)}],
            }]}
            for box, part in zip(boxes, values, strict=True)
        ]  # fmt: skip

    saved = NotedState(arrays=(note_values("params.w", ("parameter", "w"), W, boxes),))
    assert compare_restored(saved, merge_notes(processes(cut))).holds is True
    rounded = [part.astype(BF16).astype(np.float32) for part in cut]
    found = compare_restored(saved, merge_notes(processes(rounded)))
    assert words(found) == {"params['w']": ("cast", "cast: float32 → bfloat16")}
    assert words(compare_restored(saved, merge_notes(processes([cut[0], cut[1] + 1])))) == {
        "params['w']": ("other", "other values in 1 of 2 parts")
    }


def test_npz_and_safetensors_are_read_and_damage_is_an_error(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **{"params/w": W})
    header = json.dumps({"params.w": {"dtype": "F32", "shape": list(W.shape), "data_offsets": [0, W.nbytes]}}).encode()
    (tmp_path / "a.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + W.tobytes())
    restored = arguments({"params['w']": W})
    for name in ("a.npz", "a.safetensors"):
        assert compare_restored(note_checkpoint(tmp_path / name, restored), restored).holds is True
    (tmp_path / "b.safetensors").write_bytes((tmp_path / "a.safetensors").read_bytes()[:-4])
    for name in ("b.safetensors", "none.npz"):
        with pytest.raises(CheckpointError, match=name):
            note_checkpoint(tmp_path / name, restored)
