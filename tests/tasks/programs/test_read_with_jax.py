"""Files are read with JAX in a subprocess, whose failures are a ValueError that names the file."""

from pathlib import Path

import pytest

from tasks.programs import read_with_jax as reader

pytestmark = pytest.mark.flows


def test_a_file_that_takes_too_long_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "PATIENCE_S", 0.01)
    with pytest.raises(ValueError, match=r"step\.mlir was not read within 0 s"):
        reader.read_with_jax("stablehlo", [tmp_path / "step.mlir"])
