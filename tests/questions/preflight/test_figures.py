"""The cost of a step on a slice, as `maxview preflight` prints it, against docs/preflight.md: a gain on a CPU must not
cost time or memory on a TPU.
"""

import importlib.util
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.flows

type Maxview = Callable[..., subprocess.CompletedProcess[str]]

ROOT = Path(__file__).parents[3]
SECTION = re.compile(r"^## As typed on a v6e-32$(.*?)^## ", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| `(\w+)` \| ([\d,.]+) \| ([\d,.]+) \| ([\d,.]+) \|$", re.MULTILINE)


def read_table() -> dict[str, tuple[float, ...]]:
    """MiB, cycles and MiB in collectives of every case in the table."""
    section = SECTION.search((ROOT / "docs" / "preflight.md").read_text(encoding="utf-8"))
    assert section is not None
    return {row[0]: tuple(float(text.replace(",", "")) for text in row[1:]) for row in ROW.findall(section[1])}


def test_the_table_has_the_nightly_cases_of_a_tpu() -> None:
    assert list(read_table()) == ["01_base", "04_int8", "03_dropout"]


@pytest.mark.long
@pytest.mark.tpu
@pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason="needs libtpu: uv sync --extra tpu")
@pytest.mark.parametrize(
    "case", ["01_base", *(pytest.param(one, marks=pytest.mark.by_hand) for one in ("04_int8", "03_dropout"))]
)
def test_the_cost_of_both_arms_equals_the_table(case: str, maxview: Maxview) -> None:
    done = maxview("preflight", "linen-vs-nnx", "--case", case, "--target", "v6e-32", "--out", "o", "--json")
    assert done.returncode == 0, done.stderr
    (record,) = json.loads(done.stdout)
    assert record["verdict"] == "same"
    rows = {row["metric"]: (row["baseline"], row["candidate"]) for row in record["rows"]}
    names = ("program_memory_gb", "estimated_cycles", "collective_bytes")
    for gib, cycles, mib in zip(*(rows[name] for name in names), strict=True):
        assert (gib * 1024, cycles, mib) == pytest.approx(read_table()[case], rel=0.01)
