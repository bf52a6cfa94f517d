"""Runs the programs of other libraries, and stores the results for `maxview card`."""

import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from configs.installed import trainer_commit
from tasks.records.proof_card import ReferenceCheck
from tests.references.decoders import DECODERS, write_job
from tests.references.our_step import Arrays
from tests.references.run_program import run_program
from tests.small_trainer import start_backend

ROOT = Path(__file__).parents[2]

start_backend(devices=1)


@pytest.fixture(scope="session")
def record_check() -> Iterator[Callable[..., None]]:
    """Write the results for `maxview card` into the folder MAXVIEW_REFERENCES, if set: a file per library."""
    checks: list[ReferenceCheck] = []
    commit, dirty = trainer_commit(ROOT)

    def record(case: str, reference: str, quantity: str, difference: float, limit: float) -> None:
        checks.append(
            ReferenceCheck(
                case=case,
                reference=reference,
                quantity=quantity,
                difference=difference,
                limit=limit,
                commit=commit if not dirty else None,
                day=datetime.now(UTC).date().isoformat(),
                command="pytest -m long tests/references",
            )
        )

    yield record
    folder = os.environ.get("MAXVIEW_REFERENCES")
    if folder and checks:
        Path(folder).mkdir(parents=True, exist_ok=True)
    for library in dict.fromkeys(check.reference.partition(" ")[0] for check in checks if folder):
        found = [check.model_dump() for check in checks if check.reference.partition(" ")[0] == library]
        (Path(folder or "") / f"{library.lower()}.json").write_text(json.dumps(found, indent=1) + "\n")


@pytest.fixture(scope="session")
def torch_python() -> str:
    """A Python with torch and transformers: MAXVIEW_TORCH_PYTHON, or this one."""
    python = os.environ.get("MAXVIEW_TORCH_PYTHON")
    if python is None and importlib.util.find_spec("torch") is None:
        pytest.skip("MAXVIEW_TORCH_PYTHON does not name the Python of an environment with torch (CONTRIBUTING.md)")
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
