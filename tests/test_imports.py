"""Checks beside import-linter's (pyproject.toml): injected modules, lazy imports, docstrings of modules."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.flows

ROOT = Path(__file__).parent.parent
OURS = ("probe", "configs", "model", "tasks", "flows", "questions")
PROBE = ROOT / "probe"  # runs in the process of a trainer, which may lack maxview
BESIDE = {"maxview_probe", "load_maxview_probe"}  # its own modules
ITS_NEEDS = sys.stdlib_module_names | BESIDE | {"jax", "jaxlib", "numpy", "scipy", "ml_dtypes"}


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
            yield node.module.split(".")[0]


def test_imports_are_absolute_and_the_probe_needs_the_trainers_packages_only() -> None:
    for package in OURS:
        files = sorted((ROOT / package).rglob("*.py"))
        assert files
        for path in files:
            used = set(imported(path))
            if path.is_relative_to(PROBE):
                assert used <= ITS_NEEDS | ({"pytest"} if path.name == "pytest_plugin.py" else set()), path


@pytest.mark.parametrize(
    ("modules", "absent"),
    [
        ("flows.cli.app, flows.compare, flows.ingest", ("jax", "flax", "orbax")),
        ("flows.cli.app", ("prefect", "polars", "jax")),
        ("flows.ingest", ("tensorstore",)),
        (
            "flows.compare, flows.ingest, flows.verify, tasks.publish.site.comparison_pages",
            ("questions",),
        ),
        ("model.train.loop", ("prefect", "polars", "fastapi")),
        (
            "tasks.scrape, tasks.verify.compare_checkpoints, tasks.diff, questions.preflight.compare_compiles, "
            "tasks.store, tasks.resolve.plans",
            ("jax", "prefect"),
        ),
    ],
)
def test_an_import_loads_only_its_needs(modules: str, absent: tuple[str, ...], tmp_path: Path) -> None:
    code = f"import sys, {modules}; print([m for m in {absent!r} if m in sys.modules])"
    argv = [sys.executable, "-c", code]
    result = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120)
    assert result.stdout.strip() == "[]"


def test_every_module_begins_with_a_sentence() -> None:
    for package in OURS:
        for path in sorted((ROOT / package).rglob("*.py")):
            assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), path


def test_tasks_has_no_loose_modules() -> None:
    assert {path.name for path in (ROOT / "tasks").glob("*.py")} == {"__init__.py"}


PACKAGES = sorted(path.parent for top in ("tasks", "questions") for path in (ROOT / top).glob("*/__init__.py"))


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_a_package_begins_with_its_input_its_output_and_the_file_to_read_first(package: Path) -> None:
    doc = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""
    _, _, rest = doc.partition("\n\nIn: ")
    assert "Out: " in rest, doc
    first = rest.partition("Read first: ")[2].removesuffix(".").split(",")[0]
    assert (package / first).is_file() or (ROOT / first).is_file(), first
