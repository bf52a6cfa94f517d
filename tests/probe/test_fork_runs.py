"""Forks of one import: each starts in its own folder, and has Pallas kernels interpreted on the path for TPUs."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from maxview_probe.inject import FORK_RUNS, INJECTED
from tasks.observe.recorder import VARIABLE, prepare_recorder, read_observation

pytestmark = pytest.mark.flows

TRAINER = """
import jax, jax.numpy as jnp
from jax.experimental import pallas as pl
def double(x, o):
    o[...] = x[...] * 2.0
def train_step(w, x):
    assert jax.default_backend() == "tpu"
    y = pl.pallas_call(double, jax.ShapeDtypeStruct((2, 4), x.dtype))(x @ w)
    return w - 0.1 * x.T @ y
jax.jit(train_step)(jnp.ones((4, 4)), jnp.ones((2, 4)))
"""


def test_a_fork_interprets_kernels(tmp_path: Path) -> None:
    (tmp_path / "kernel_trainer.py").write_text(TRAINER)
    own = prepare_recorder(tmp_path, {}, observe=True, platform="tpu")
    paths = {"PYTHONPATH": f"{INJECTED}{os.pathsep}{tmp_path}", "JAX_PLATFORMS": "cpu"}
    run = {
        "argv": [sys.executable, "-m", "kernel_trainer"], "environment": {}, "log": str(tmp_path / "log"),
        "folder": str(tmp_path), "settings": own[VARIABLE], "time_limit_s": 300,
    }  # fmt: skip
    (tmp_path / "runs.json").write_text(json.dumps({"modules": ["jax"], "runs": [[run]]}))
    argv = [sys.executable, str(FORK_RUNS), str(tmp_path / "runs.json")]
    subprocess.run(argv, env=os.environ | paths, check=True, timeout=300)
    found = read_observation(tmp_path)
    assert (found.step, found.platform, found.notes) == ("train_step", "cpu", ())
    assert "custom_call" not in gzip.decompress((tmp_path / "step.mlir.gz").read_bytes()).decode()


def test_a_fork_starts_in_its_own_folder(tmp_path: Path) -> None:
    (tmp_path / "place_trainer.py").write_text("import os\nprint(os.getcwd())\n")
    runs = []
    for name in ("left", "right"):
        (tmp_path / name).mkdir()
        runs.append({
            "argv": [sys.executable, "-m", "place_trainer"], "environment": {}, "log": str(tmp_path / f"{name}.log"),
            "folder": str(tmp_path / name), "settings": "", "time_limit_s": 60,
        })  # fmt: skip
    for modules in (["json"], []):  # forked from a process with imports, and started anew
        (tmp_path / "runs.json").write_text(json.dumps({"modules": modules, "runs": [[run] for run in runs]}))
        argv = [sys.executable, str(FORK_RUNS), str(tmp_path / "runs.json")]
        subprocess.run(argv, env=os.environ | {"PYTHONPATH": str(tmp_path)}, check=True, timeout=60)
    for name in ("left", "right"):
        printed = (tmp_path / f"{name}.log").read_text().split()
        assert printed == [str(tmp_path / name), "EXIT_CODE=0"] * 2
