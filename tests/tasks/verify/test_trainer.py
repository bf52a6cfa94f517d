"""The checkpoints of our own trainer, of both implementations: whole, and equal trees."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from configs.load import CONFIG_ROOT
from tasks.verify.verification import verify_checkpoints

pytestmark = pytest.mark.long


def test_linen_and_nnx_save_their_own_trees_with_as_many_arrays(tmp_path):
    digests = set()
    for name, pure_nnx in (("linen", "false"), ("nnx", "true")):
        values = {
            "run_name": name,
            "base_output_directory": str(tmp_path),
            "pure_nnx": pure_nnx,
            "hardware": "cpu",
            "steps": "2",
            "checkpoint_period": "1",
            "max_target_length": "16",
        }
        model = Path(CONFIG_ROOT) / "models" / "tiny.yml"
        command = [
            sys.executable,
            "-m",
            "model.train",
            str(model),
            *(f"{key}={value}" for key, value in values.items()),
        ]
        environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
        subprocess.run(command, check=True, capture_output=True, timeout=300, env=environment)
        proofs = tuple(verify_checkpoints(tmp_path / name, mode="record", deep=True))
        assert [(proof.step, proof.problems) for proof in proofs] == [(0, ()), (1, ())]
        # 12 parameters, twice as many moments, two counters of the optimizer and the step
        assert {proof.arrays for proof in proofs} == {39}
        digests |= {proof.tree_digest for proof in proofs}
    assert len(digests) == 2  # each keeps its own tree, equal at every step
    assert None not in digests
