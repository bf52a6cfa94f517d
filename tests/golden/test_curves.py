"""The losses of two of our own runs, digit for digit: detects changes of the trainer or of a library."""

import platform
from pathlib import Path

import pytest

from tests.golden.curve import NAMES, describe_cpu, list_versions, read_curve, train_again

pytestmark = pytest.mark.long  # two starts of JAX and two compiles: 15 s of a core


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the curves are those of x86-64")
@pytest.mark.parametrize("name", NAMES)
def test_a_run_repeats_its_losses(name: str, tmp_path: Path) -> None:
    """Exact on the CPU that made the curves; within the measured tolerance on others."""
    curve = read_curve(name)
    losses = train_again(curve, tmp_path)
    made_with = {key: [old, new] for key, old in curve["versions"].items() if old != (new := list_versions()[key])}
    hint = f'if this is intended: python -m tests.golden.curve --reason "…" (other versions: {made_with or "none"})'
    if describe_cpu() == curve["cpu"]:
        assert losses == curve["losses"], hint
    else:
        assert losses == pytest.approx(curve["losses"], rel=curve["other_cpus"], abs=0), hint
