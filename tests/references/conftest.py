"""Runs the programs of other libraries."""

import importlib.util
import os
import sys
from collections.abc import Callable

import numpy as np
import pytest

from tests.references.decoders import DECODERS, write_job
from tests.references.our_step import Arrays
from tests.references.run_program import run_program
from tests.small_trainer import start_backend

start_backend(devices=1)


@pytest.fixture(scope="session")
def torch_python() -> str:
    """A Python with torch and transformers: MAXVIEW_TORCH_PYTHON, or this one."""
    python = os.environ.get("MAXVIEW_TORCH_PYTHON")
    if python is None and importlib.util.find_spec("torch") is None:
        pytest.skip("MAXVIEW_TORCH_PYTHON does not name the Python of an environment with torch (docs/testing.md)")
    return python or sys.executable


@pytest.fixture(scope="session")
def transformers_found(torch_python: str, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, bool], Arrays]:
    """(decoder, packed) -> the results of transformers, all computed in one process: loading torch takes seconds."""
    folders = {
        (name, packed): tmp_path_factory.mktemp("job")
        for name in DECODERS
        for packed in (False, True)
        if not (packed and "balanced" in name)
    }
    for (name, packed), folder in folders.items():
        write_job(folder, name, packed=packed)
    run_program(torch_python, "hf_decoder.py", *folders.values())
    return {job: dict(np.load(folder / "found.npz")) for job, folder in folders.items()}


@pytest.fixture(params=[False, True], ids=["linen", "nnx"])
def pure_nnx(request: pytest.FixtureRequest) -> bool:
    """Run each test in both APIs."""
    return bool(request.param)


@pytest.fixture
def worst() -> Callable[[Arrays, Arrays], tuple[float, str]]:
    """The largest difference of any array, relative to that array's largest value, and the array's name."""

    def compare(ours: Arrays, theirs: Arrays) -> tuple[float, str]:
        assert ours.keys() == theirs.keys()
        return max(
            (float(np.max(np.abs(ours[name] - theirs[name])) / np.max(np.abs(theirs[name]))), name) for name in theirs
        )

    return compare
