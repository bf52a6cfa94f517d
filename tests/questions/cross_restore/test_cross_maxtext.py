"""MaxText continues the other arm's checkpoint, and Linen restores the matching part of NNX's tree."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import polars as pl
import pytest

from questions.cross_restore.cross_maxtext import compare_losses, find_source_plan, map_to_linen
from tasks.records.plan import RunPlan

type MakePlan = Callable[..., RunPlan]


@pytest.fixture(autouse=True, scope="module")
def _polars_has_its_threads() -> None:
    """Start the libraries' threads before a fixture counts open descriptors: they keep some open."""
    pl.DataFrame({"step": [0]}).filter(pl.col("step") > 0)


def write_losses(folder: Path, losses: Mapping[int, float]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rows = [{"learning/loss": loss, "step": step, "perf/step_time_seconds": 1.0} for step, loss in losses.items()]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize(
    ("after", "holds"),
    [
        ({1: 2.5, 2: 2.25}, True),
        ({1: 2.5, 2: 2.2500001}, False),  # differs by two float32 units in the last place
        ({1: 2.5}, None),  # it did not train to the end
        ({}, None),
    ],
)
def test_every_loss_after_the_restored_step_counts(
    after: Mapping[int, float], holds: bool | None, make_plan: MakePlan, tmp_path: Path
) -> None:
    before = make_plan("", arm="linen", run_name="theirs", directory=str(tmp_path / "theirs"))
    write_losses(tmp_path / "theirs", {0: 3.0, 1: 2.5, 2: 2.25})
    write_losses(tmp_path / "ours", after)
    found = compare_losses(make_plan("", arm="nnx"), before, 0, tmp_path / "ours", 0)
    assert (found.holds, found.restored_step) == (holds, 0)
    assert compare_losses(make_plan("", arm="nnx"), before, 0, tmp_path / "ours", 1).holds is None  # it died


def test_only_maxtext_on_this_machine_restores_the_previous_runs_checkpoint(make_plan: MakePlan) -> None:
    def plan(arm: str, **changes: object) -> RunPlan:
        return make_plan("", **({"arm": arm, "trainer": "maxtext", "run_name": arm} | changes))

    linen, nnx = plan("linen"), plan("nnx")
    assert find_source_plan(nnx, [linen, nnx]) == linen
    assert find_source_plan(linen, [linen, nnx]) is None
    for other in (
        plan("linen", trainer="maxview"),
        plan("linen", backend="xpk"),
        plan("linen", config={"enable_checkpointing": False}),
        plan("nnx", run_name="nnx again"),
    ):
        assert find_source_plan(nnx, [other, nnx]) is None


def test_linen_restores_nnxs_tree_without_its_random_numbers(tmp_path: Path) -> None:
    def entry(*keys: str) -> dict[str, object]:
        return {
            "key_metadata": [{"key": key, "key_type": 2} for key in keys],
            "value_metadata": {"value_type": "jax.Array"},
        }

    weights = {"('params', 'w')": entry("params", "w"), "('step',)": entry("step")}
    random = {"('nnx_aux', 'model', 'key')": entry("nnx_aux", "model", "key")}
    items = tmp_path / "items"
    (items / "d").mkdir(parents=True)
    (items / "d" / "data").write_bytes(b"bits")
    (items / "_METADATA").write_text(json.dumps({"tree_metadata": weights | random, "use_zarr3": False}))
    copy = map_to_linen(items, tmp_path / "copy")
    assert json.loads((copy / "_METADATA").read_text()) == {"tree_metadata": weights, "use_zarr3": False}
    assert (copy / "d" / "data").read_bytes() == b"bits"
    assert (
        json.loads((items / "_METADATA").read_text())["tree_metadata"] == weights | random
    )  # the original is unchanged
    assert map_to_linen(copy, tmp_path / "not needed") == copy
