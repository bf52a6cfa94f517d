"""A copy of the configs that a test may change."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from configs.read import CONFIG_ROOT


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """All our YAML files in a temporary folder."""
    return Path(
        shutil.copytree(CONFIG_ROOT, tmp_path / "configs", ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    )


@pytest.fixture
def write(tree: Path) -> Callable[[str, str], Path]:
    """Writes one file of the copy: write("cases/90_bad.yml", text)."""

    def write_file(name: str, text: str) -> Path:
        path = tree / name
        path.write_text(text, encoding="utf-8")
        return path

    return write_file
