"""Without the folder and the name of a question, everything else is imported, and its commands work."""

import re
import shutil
import subprocess
import sys
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


@pytest.mark.parametrize("name", questions.QUESTIONS)
def test_a_question_is_removed_with_its_folder_and_its_name(name: str, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for package in PACKAGES:
        skipped = shutil.ignore_patterns("__pycache__", *([name] if package == "questions" else []))
        shutil.copytree(ROOT / package, tree / package, ignore=skipped)
    listed = tree / "questions" / "__init__.py"
    text, removed = re.subn(rf'"{name}"(, )?', "", listed.read_text())
    assert removed == 1
    listed.write_text(text)
    assert not (tree / "questions" / name).exists()

    def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
        path = {"PYTHONPATH": f"{tree}:{tree / 'probe'}", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
        done = subprocess.run([sys.executable, *words], cwd=tree, env=path, capture_output=True, text=True, timeout=300)
        assert "Traceback" not in done.stderr, done.stderr
        return done

    imported = run("-c", IMPORT_ALL, name)
    assert imported.returncode == 0, imported.stderr
    shown = run("-m", "flows.cli", "--help").stdout
    assert "ingest" in shown
    commands = [line.split()[1] for line in shown.splitlines() if line.startswith("│ ")]
    assert name not in commands
    compared = run("-m", "flows.cli", "ingest", *LOGS, "--out", tmp_path / "out")
    assert compared.returncode in (0, 1, 3), compared.stderr
    built = run("-m", "flows.cli", "site", "build", "--out", tmp_path / "out")
    assert built.returncode == 0, built.stderr
    assert (tmp_path / "out" / "index.html").is_file()
