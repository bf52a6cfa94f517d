"""A whole checkpoint has no problems, in every layout of Orbax; the levels of its proof."""

import subprocess
import sys
from pathlib import Path

import pytest

from tasks.records.checkpoint_proof import LEVELS
from tasks.verify.array_index import ArraySpec
from tasks.verify.layout import find_steps
from tasks.verify.verification import tree_digest, verify_checkpoint, verify_checkpoints

pytestmark = pytest.mark.flows

LAYOUTS = ("ocdbt-zarr3", "ocdbt-zarr2", "plain-zarr3", "plain-zarr2")
# the leaves of saver.make_tree with data: 3 kernels, embedding, mu, count, zeros, numpy, scalar, step
ARRAYS = 10


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_is_whole(save, layout):
    run = save("--layout", layout)
    proofs = tuple(verify_checkpoints(run, deep=True))
    assert [(proof.step, proof.ok, proof.problems) for proof in proofs] == [(0, True, ()), (9, True, ())]
    for proof in proofs:
        assert proof.checks == ("commit", "metadata", "ranges", "values")
        assert proof.arrays == ARRAYS
        files = [path for path in Path(proof.path).rglob("*") if path.is_file()]
        assert (proof.files, proof.bytes) == (len(files), sum(path.stat().st_size for path in files))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_checkpoint_of_orbax_v1_is_complete(saved_by_v1, layout):
    """Orbax loads each checkpoint. `save_pytree` writes one commit marker, a Checkpointer writes one per item."""
    proofs = [verify_checkpoint(saved_by_v1 / layout / name, deep=True) for name in ("plain", "several")]
    proofs += verify_checkpoints(saved_by_v1 / layout / "managed", deep=True)
    assert [proof.problems for proof in proofs] == [(), (), (), ()]
    assert [(proof.step, proof.arrays) for proof in proofs] == [
        (None, ARRAYS), (None, ARRAYS + 1), (0, ARRAYS), (9, ARRAYS)
    ]  # fmt: skip


def test_a_plain_checkpointers_folder_is_a_checkpoint_without_a_step(save):
    proof = verify_checkpoint(save("--plain-checkpointer", "--steps", "3") / "checkpoints", deep=True)
    assert (proof.ok, proof.step, proof.arrays, proof.problems) == (True, None, ARRAYS, ())


def test_chunks_smaller_than_a_devices_shard_are_whole(save):
    proofs = tuple(verify_checkpoints(save("--chunk-bytes", "4096"), deep=True))
    assert [proof.problems for proof in proofs] == [(), ()]


def test_the_digest_depends_on_the_tree_only(save):
    runs = [save("--layout", layout) for layout in LAYOUTS] + [save("--chunk-bytes", "4096")]
    digests = {proof.tree_digest for run in runs for proof in verify_checkpoints(run)}
    digests.add(verify_checkpoint(save("--plain-checkpointer", "--steps", "3") / "checkpoints").tree_digest)
    assert len(digests) == 1
    assert None not in digests
    other_shapes = verify_checkpoint(save("--size", "2048", "--steps", "0")).tree_digest
    assert other_shapes not in digests


def test_the_digest_distinguishes_path_shape_and_dtype():
    def digest(path: str = "params.w", shape: tuple[int, ...] = (4, 6), dtype: str = "float32") -> str:
        return tree_digest({path: ArraySpec(path, shape, dtype, 3, shape, shape, "/")})

    assert len({digest(), digest(path="params.v"), digest(shape=(6, 4)), digest(dtype="bfloat16")}) == 4
    cut = {"params.w": ArraySpec("params.w", (4, 6), "float32", 2, (2, 6), (2, 3), ".")}
    assert tree_digest(cut) == digest()


def test_a_run_a_checkpoints_folder_and_a_step_are_found(save):
    run = save()
    for given in (run, run / "checkpoints", str(run / "checkpoints") + "/"):
        assert [(found.step, found.path.name) for found in find_steps(given)] == [(0, "0"), (9, "9")]
    assert [found.step for found in find_steps(run / "checkpoints" / "9")] == [9]


def test_steps_are_in_numerical_order(save, run_folder):
    (run_folder / "checkpoints" / "9").rename(run_folder / "checkpoints" / "checkpoint_100")
    (run_folder / "checkpoints" / "0").rename(run_folder / "checkpoints" / "00000020")
    assert [found.step for found in find_steps(run_folder)] == [20, 100]


def test_progress_reaches_the_total(save, tmp_path):
    seen: dict[str, list[tuple[int, int]]] = {}
    proof = verify_checkpoint(
        save() / "checkpoints" / "9",
        manifest=tmp_path / "9.json",
        mode="record",
        deep=True,
        on_progress=lambda check, done, total: seen.setdefault(check, []).append((done, total)),
    )
    assert seen["manifest"][-1] == (proof.bytes, proof.bytes)
    assert seen["values"][-1][0] == seen["values"][-1][1]
    assert all(done == sorted(done) for done in ([d for d, _ in steps] for steps in seen.values()))


def test_jax_is_not_imported(save):
    program = (
        "import sys; from tasks.verify.verification import verify_checkpoints\n"
        "assert all(proof.ok for proof in verify_checkpoints(sys.argv[1], deep=True))\n"
        "assert not {'jax', 'orbax', 'flax'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program, str(save())], check=True, timeout=120)


def test_a_proof_has_its_levels_and_the_duration_of_each_check(run_folder):
    levels = ("committed", "structurally whole", "referentially whole")
    for mode, more in (("none", ()), ("record", ("content recorded",))):
        proof = tuple(verify_checkpoints(run_folder, mode=mode))[-1]
        assert proof.levels == levels + more
        assert set(proof.timings) == set(proof.checks)
        assert 0 < sum(proof.timings.values()) <= proof.seconds
    proof = tuple(verify_checkpoints(run_folder, mode="check", deep=True))[-1]
    assert proof.levels == (*levels, "content recorded", "content unchanged", "decoded and finite")
    assert proof.begun_at <= proof.committed_at <= proof.verified_at
    (run_folder / "checkpoints" / "9" / "items" / "_sharding").unlink()
    damaged = tuple(verify_checkpoints(run_folder, mode="check", deep=True))[-1]
    assert damaged.levels == ("committed",)  # levels above the first damage do not count


def test_the_levels_in_the_docs_equal_the_code():
    text = (Path(__file__).parents[3] / "docs" / "checkpoints.md").read_text()
    section = text.partition("## Levels\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert rows == [f"| {level} | {meaning.proves} | {meaning.costs} |" for level, meaning in LEVELS.items()]
