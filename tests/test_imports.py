"""The walls between the packages: who may import whom, and what stays out of a process that does not need it."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OURS = ("configs", "model", "tasks", "flows")
FORBIDDEN = {
    "configs": {"model", "tasks", "flows", "jax", "flax", "optax", "orbax", "prefect", "polars", "numpy"},
    "model": {"tasks", "flows", "prefect", "polars"},
    "tasks": {"model", "flows", "jax", "flax", "optax", "orbax"},
    "flows": {"model", "jax", "flax", "optax", "orbax"},
}
# the Prefect shells around the steps live in one module, and what deals with its servers in one folder; everything
# else in tasks/ works without Prefect
PREFECT_ALLOWED = (Path("tasks/steps.py"), Path("tasks/services"))


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
            yield node.module.split(".")[0]


@pytest.mark.parametrize("package", OURS)
def test_a_package_imports_only_what_it_may(package: str) -> None:
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    for path in files:
        used = set(imported(path))
        assert not used & FORBIDDEN[package], path
        if package == "tasks" and not any(path.is_relative_to(ROOT / place) for place in PREFECT_ALLOWED):
            assert "prefect" not in used, path


@pytest.mark.parametrize(
    ("modules", "absent"),
    [
        ("flows.cli.app, flows.compare, flows.ingest", ("jax", "flax", "orbax")),
        ("flows.cli.app", ("prefect", "polars", "jax")),
        ("model.train.loop", ("prefect", "polars", "fastapi")),
        (
            "tasks.scrape, tasks.verify.against, tasks.diff, tasks.preflight.case, tasks.store, tasks.resolve.plans",
            ("jax", "prefect"),
        ),
    ],
)
def test_an_import_loads_only_what_it_needs(modules: str, absent: tuple[str, ...], tmp_path: Path) -> None:
    code = f"import sys, {modules}; print([m for m in {absent!r} if m in sys.modules])"
    argv = [sys.executable, "-c", code]
    result = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120)
    assert result.stdout.strip() == "[]"


def test_every_module_opens_with_a_sentence() -> None:
    for package in OURS:
        for path in sorted((ROOT / package).rglob("*.py")):
            assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), path


def test_nothing_lies_loose() -> None:
    assert {path.name for path in (ROOT / "tasks").glob("*.py")} == {"__init__.py", "steps.py"}
