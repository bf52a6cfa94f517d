"""What a step takes on a slice, as a user types it, against the table in docs/preflight.md: a gain on a CPU must not be
paid for on a TPU."""

import gzip
import importlib.util
import os
import re
import subprocess
from pathlib import Path

import pytest

from configs.comparison import load_comparison, load_target
from configs.environment import pass_on
from configs.topologies import find_topology
from tasks.launch.config import yaml_scalar
from tasks.preflight.analyse import analyse_program
from tasks.records.compiled import FILE, OPTIMISED, CompiledProgram
from tasks.resolve.plans import resolve_config
from tasks.resolve.trainers.compile import CONFIG, plan_compile
from tasks.resolve.trainers.trainer_source import TrainerSource

ROOT = Path(__file__).parents[3]
SECTION = re.compile(r"^## As typed on a v6e-32$(.*?)^## ", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| `(\w+)` \| ([\d,.]+) \| ([\d,.]+) \| ([\d,.]+) \|$", re.MULTILINE)
MIB = 2**20


def read_table() -> dict[str, tuple[float, ...]]:
    """MiB, cycles and MiB in collectives of every case in the table."""
    section = SECTION.search((ROOT / "docs" / "preflight.md").read_text(encoding="utf-8"))
    assert section is not None
    return {row[0]: tuple(float(text.replace(",", "")) for text in row[1:]) for row in ROW.findall(section[1])}


def test_the_table_has_the_cases_that_are_nightly_on_a_tpu() -> None:
    assert list(read_table()) == ["01_base", "04_int8", "03_dropout"]


@pytest.mark.long
@pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason="needs libtpu: uv sync --extra tpu")
@pytest.mark.parametrize("case", ["01_base", "04_int8", "03_dropout"])
def test_a_case_takes_on_a_slice_what_the_table_says(case: str, tmp_path: Path) -> None:
    target = load_target("v6e-32")
    config = resolve_config(load_comparison("linen-vs-nnx"), target, case=case, arm="nnx").config
    lines = (f"{key}: {yaml_scalar(value)}\n" for key, value in config.model_dump().items())
    (tmp_path / CONFIG).write_text("".join(lines), encoding="utf-8")
    checkout = TrainerSource(commit=None, dirty=False, versions={})
    assert target.topology is not None
    command = plan_compile(config, checkout, find_topology(target.topology), tmp_path, tmp_path / "programs")
    environment = pass_on(os.environ) | command.environment
    ended = subprocess.run(command.argv, env=environment, capture_output=True, text=True, check=False, timeout=1800)
    assert ended.returncode == 0, ended.stderr[-2000:]
    program = CompiledProgram.model_validate_json((tmp_path / FILE).read_text(encoding="utf-8"))
    assert program.memory is not None
    with gzip.open(tmp_path / OPTIMISED, "rt", encoding="utf-8") as text:
        work = analyse_program(text).work.work
    found = (program.memory.total / MIB, work.cycles, work.collective_bytes / MIB)
    assert found == pytest.approx(read_table()[case], rel=0.01)
