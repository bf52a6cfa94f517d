"""The plugin in pytest itself: a failure shows the line, not arrays; the report has every comparison."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.flows

TESTS = """
import hypothesis, hypothesis.strategies as st
import jax, jax.numpy as jnp

def twice(x):
    return x + x

def wrong(x):
    return x * 2.001

def test_same(same_function):
    same_function(twice, lambda x: 2 * x, jax.ShapeDtypeStruct((3,), jnp.float32))

def test_other(same_function):
    same_function(twice, wrong, jax.ShapeDtypeStruct((3,), jnp.float32))

@hypothesis.settings(max_examples=2, deadline=None)
@hypothesis.given(size=st.integers(1, 4))
def test_any_shape(same_function, size):
    same_function(twice, lambda x: 2 * x, jax.ShapeDtypeStruct((size,), jnp.float32))

def test_nothing():
    pass
"""


def test_the_fixture_the_marker_and_the_report(tmp_path: Path) -> None:
    (tmp_path / "test_twice.py").write_text(TESTS)
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "maxview", "--maxview-report", "found.json"]
    done = subprocess.run(
        argv, cwd=tmp_path, env=os.environ | {"JAX_PLATFORMS": "cpu"}, capture_output=True, text=True, check=False
    )
    assert "1 failed, 2 passed, 1 deselected" in done.stdout, done.stdout + done.stderr
    shown = [line for line in done.stdout.splitlines() if line.startswith("E ")]
    assert "the result differs by 5.0e-04 in float64, first at test_twice.py:9" in shown[0]
    assert not any("maxview_probe/" in line for line in done.stdout.splitlines())
    found = json.loads((tmp_path / "found.json").read_text())
    words = [(one["test"].partition("::")[2], one["same"]) for one in found]
    assert words[:2] == [("test_same", True), ("test_other", False)]
    assert set(words[2:]) == {("test_any_shape", True)}
    assert found[1]["roots"][0]["number"] == 9
