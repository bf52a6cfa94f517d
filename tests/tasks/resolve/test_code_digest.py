"""A branch without code changes has the same digest; a branch with any code change has another one."""

from pathlib import Path

import pytest

from tasks.resolve.code_digest import digest_trainer

LOOP = '''"""Trains."""
from __future__ import annotations
import time


def train(steps, *, every=1):
    """Run the steps."""
    total = 0
    for step in range(steps):
        if step in {1, 2, 3}:
            total += every
    return [total + one for one in (1, 2)]


class Clock:
    began = 0.0
'''
INNOCENT = {
    "a comment": ("    total = 0", "    total = 0  # nothing yet"),
    "a docstring": ('"""Run the steps."""', '"""Run all steps, in order."""'),
    "no docstring": ('    """Run the steps."""\n', ""),
    "the module's docstring": ('"""Trains."""', '"""Trains a model."""'),
    "blank lines": ("    for step", "\n\n    for step"),
    "a line break": ("range(steps)", "range(\n        steps\n    )"),
    "a local variable": ("total", "sum_of_all"),
    "a loop variable": ("step in", "number in"),
}
CHANGED = {
    "a number": ("total = 0", "total = 1"),
    "its type": ("total = 0", "total = 0.0"),
    "a call": ("    total = 0", "    time.sleep(0)\n    total = 0"),
    "an argument's name": ("every", "each"),
    "an attribute": ("began", "started"),
    "a default": ("every=1", "every=2"),
    "an order": ("(1, 2)", "(2, 1)"),
    "an operator": ("total + one", "total - one"),
    "another variable": ("total += every", "total += step"),
    "a function that reads names of variables": ("return [total", "return [locals() and total"),
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name, text in {"model/loop.py": LOOP, "model/__init__.py": "", "configs/load.py": "x = 1\n"}.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    (tmp_path / "configs/base.yml").write_text("steps: 1\n")
    return tmp_path


def edit(checkout: Path, old: str, new: str) -> str:
    text = LOOP.replace(old, new)
    assert text != LOOP
    (checkout / "model/loop.py").write_text(text)
    return digest_trainer(checkout)


@pytest.mark.parametrize("change", INNOCENT.values(), ids=INNOCENT)
def test_equal_code_has_equal_digests(checkout: Path, change: tuple[str, str]) -> None:
    before = digest_trainer(checkout)
    assert before
    assert edit(checkout, *change) == before


@pytest.mark.parametrize("change", CHANGED.values(), ids=CHANGED)
def test_different_code_has_different_digests(checkout: Path, change: tuple[str, str]) -> None:
    before = digest_trainer(checkout)
    assert edit(checkout, *change) not in ("", before)


def test_names_of_variables_count_in_functions_that_can_read_them(checkout: Path) -> None:
    reads = edit(checkout, "return [total", "return [locals() and total")
    text = (checkout / "model/loop.py").read_text()
    (checkout / "model/loop.py").write_text(text.replace("total", "whole"))
    assert digest_trainer(checkout) != reads


@pytest.mark.parametrize("name", ["jax/__init__.py", "numpy.py", "model/loop.cpython-312-x86_64-linux-gnu.so"])
def test_a_file_that_shadows_an_import_counts(checkout: Path, name: str) -> None:
    before = digest_trainer(checkout)
    path = checkout / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"")
    assert digest_trainer(checkout) != before


def test_bytecode_and_the_comments_of_a_config_do_not_count(checkout: Path) -> None:
    before = digest_trainer(checkout)
    (checkout / "model/__pycache__").mkdir()
    (checkout / "model/__pycache__/loop.cpython-312.pyc").write_bytes(b"1")
    (checkout / "configs/base.yml").write_text("steps: 1  # of the training\n")
    (checkout / "README.md").write_text("words")
    assert digest_trainer(checkout) == before


def test_text_that_is_not_python_has_no_digest(checkout: Path) -> None:
    assert edit(checkout, "def train(", "def train(:") == ""
