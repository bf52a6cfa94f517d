"""Checkpoints in a bucket: real Orbax writes and restores them, and they are verified like those on a disk."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tasks.store.gcs import GcsFiles
from tasks.verify.verification import verify_checkpoint

pytestmark = pytest.mark.long

ROUNDTRIP = Path(__file__).parent / "orbax_roundtrip.py"


def test_real_orbax_saves_and_restores_and_a_missing_commit_is_seen(gcs_url: str) -> None:
    url = f"{gcs_url}/checkpoints"
    environment = dict(os.environ) | {"JAX_PLATFORMS": "cpu"}
    argv = [sys.executable, str(ROUNDTRIP), url]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    proof = verify_checkpoint(f"{url}/0", mode="none")
    assert (proof.ok, proof.arrays, proof.problems) == (True, 2, ())
    # an interrupted save already has the final name, and lacks only this
    assert GcsFiles(url).delete("0/commit_success.txt")
    proof = verify_checkpoint(f"{url}/0", mode="none")
    assert not proof.ok
    assert {problem.check for problem in proof.problems} == {"commit"}
