"""Runs on a cluster: the small model of the same case, on this machine, tells whether the function is the same."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from .test_compare_by_hand import maxview, tree

pytestmark = [pytest.mark.long, pytest.mark.by_hand]  # a comparison and its explanation: a minute of the processor
__all__ = ["tree"]
STANDS_FOR = "the model tiny on cpu stands for the runs on loopback"


@pytest.mark.parametrize("backend", ["jobset"])
def test_the_small_model_stands_for_runs_on_a_cluster(
    standin: Any, clean_environment: dict[str, str], tree: Path, tmp_path: Path, backend: str
) -> None:
    """Both arms train in pods; their step is evaluated and its root is searched on this machine."""
    standin.order({"kind": "pods", "number": 1})
    comparison = tree / "configs" / "comparisons" / "linen-vs-nnx.yml"
    comparison.write_text(comparison.read_text().replace("pure_nnx: true}", "pure_nnx: true, adam_b2: 0.951}"))
    environment = clean_environment | {name: os.environ[name] for name in ("KUBECONFIG", "PATH", "GCLOUD_STANDIN_LOGS")}
    environment |= {"PREFECT_HOME": str(tmp_path / "prefect"), "MAXVIEW_CACHE": str(tmp_path / "cache")}
    words = ("--set", "steps=6", "--set", "enable_checkpointing=false", "--interleave", "off")
    try:
        done = maxview(
            tree, environment, "compare", "linen-vs-nnx", "--target", "loopback", *words,
            "--out", str(tmp_path / "out"), "--json",
        )  # fmt: skip
    finally:
        maxview(tree, environment, "down")
    assert done.stdout, done.stderr[-3000:]
    (record,) = json.loads(done.stdout)
    rows = {row["metric"]: row["verdict"] for row in record["rows"]}
    # not the verdict of the whole: six steps of 4 ms beside other tests have any time
    assert (done.returncode, rows["loss_per_step"]) == (1, "changed"), done.stderr[-3000:]
    assert record["trained"]
    assert record["function"]["sentence"].startswith("another function")
    assert record["function"]["sentence"].endswith(STANDS_FOR)
    found = record["explanation"]
    assert STANDS_FOR in found["headline"]
    assert found["tensors"]["roots"]
    assert (found["memory"], found["time"]) == (None, None)
    (page,) = (tmp_path / "out" / "comparisons").rglob("index.html")
    assert STANDS_FOR in page.read_text()
