"""Without the folder and the name of a question, everything else is imported, and its commands work."""

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import questions

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
PACKAGES = ("configs", "flows", "model", "probe", "questions", "tasks")
LOGS = [ROOT / "tests" / "samples" / "maxview" / f"13_eval-{arm}.txt" for arm in ("linen", "nnx")]
IMPORT_ALL = """
import sys
from importlib import import_module
from pathlib import Path
root = Path.cwd()
for package in ("configs", "flows", "questions", "tasks"):
    for path in sorted((root / package).rglob("*.py")):
        if path.name != "__main__.py":
            name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
            assert import_module(name).__file__ == str(path)
from configs.questions import load_questions
assert sys.argv[1] not in load_questions()
"""


def copy_without(names: Sequence[str], tree: Path) -> None:
    """Copy the program without some questions. The copied bytecode stays valid, since files keep their times."""
    for package in PACKAGES:
        skipped = shutil.ignore_patterns(*names) if package == "questions" else None
        shutil.copytree(ROOT / package, tree / package, ignore=skipped)
    listed = tree / "questions" / "__init__.py"
    text, removed = re.subn(rf'"({"|".join(names)})"(, )?', "", listed.read_text())
    assert removed == len(names)
    listed.write_text(text)
    assert not any((tree / "questions" / name).exists() for name in names)


def run(tree: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run Python in a copy; no traceback is printed."""
    path = {"PYTHONPATH": f"{tree}:{tree / 'probe'}", "PATH": "/usr/bin:/bin", "HOME": str(tree.parent)}
    done = subprocess.run([sys.executable, *words], cwd=tree, env=path, capture_output=True, text=True, timeout=300)
    assert "Traceback" not in done.stderr, done.stderr
    return done


# CI has the first and the last: each imports the whole program
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.by_hand] * (0 < n < len(questions.QUESTIONS) - 1))
        for n, name in enumerate(questions.QUESTIONS)
    ],
)
def test_a_question_is_removed_with_its_folder_and_its_name(name: str, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    copy_without([name], tree)
    imported = run(tree, "-c", IMPORT_ALL, name)
    assert imported.returncode == 0, imported.stderr


def test_without_any_question_the_pipeline_works(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    copy_without(questions.QUESTIONS, tree)
    shown = run(tree, "-m", "flows.cli", "--help").stdout
    commands = [line.split()[1] for line in shown.splitlines() if line.startswith("│ ")]
    assert "ingest" in commands
    assert not set(questions.QUESTIONS) & set(commands)
    compared = run(tree, "-m", "flows.cli", "ingest", *LOGS, "--out", tmp_path / "out")
    assert compared.returncode in (0, 1, 3), compared.stderr
    built = run(tree, "-m", "flows.cli", "site", "build", "--out", tmp_path / "out")
    assert built.returncode == 0, built.stderr
    assert (tmp_path / "out" / "index.html").is_file()
