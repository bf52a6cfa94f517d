"""The README's commands print the shown output."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
SEEDS = os.environ.get("MAXVIEW_SEEDS")


def transcript(command: str) -> list[str]:
    """The output below a command in the README, without the `…` lines for omitted output."""
    for block in re.findall(r"```console\n(.*?)```", README, re.DOTALL):
        first, *lines = block.splitlines()
        if command in first:
            return [line for line in lines if line != "…"]
    raise AssertionError(f"the README does not show {command!r}")


def shape(line: str) -> str:
    """A line without run-dependent parts: numbers, hashes, and the spaces that depend on their widths."""
    line = re.sub(r"\b(?=\w*\d)[0-9a-f]{7,}\b", "HASH", line)
    line = re.sub(r"[-+]?\d+(?:\.\d+)*", "N", line)
    line = re.sub(r"N (minutes|hours)\b", "N s", line)
    line = re.sub(r"─+", "─", line)
    return re.sub(r"\s+", " ", line).strip()


type Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, used_home: Callable[[Path], Path]) -> Iterator[Run]:
    """Run `maxview …` in a folder; idle processes end with the tests."""
    home = str(used_home(tmp_path_factory.mktemp("readme") / "home"))
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT_", "JAX_", "XLA_"))}
    # the README types `uv run maxview`, and so do the commands that it shows next
    environment = clean | {"PREFECT_HOME": home, "PYTHONPATH": str(ROOT), "UV_RUN_RECURSION_DEPTH": "1"}

    def command(words: list[str], folder: Path, columns: int = 80) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "flows.cli", *words]
        return subprocess.run(
            argv,
            cwd=folder,
            env=environment | {"COLUMNS": str(columns)},
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )

    yield command
    assert command(["down"], Path(home)).stderr in ("embedded server: ended\n", "nothing is up\n")


def assert_shown(expected: list[str], output: str) -> None:
    """Every line of a transcript is in the output, except for run-dependent parts."""
    # a wide value may wrap its cell: folded lines are compared as words of the whole output
    there = [shape(line) for line in output.splitlines()]
    joined = " ".join(there)
    for line in expected:
        assert shape(line) in there or shape(line) in joined, f"not in the output: {line!r}\n{output}"


@pytest.mark.long
def test_the_main_command_prints_the_readmes_output(run: Run, tmp_path: Path) -> None:
    result = run(["compare", "linen-vs-nnx"], tmp_path)
    assert result.returncode in (0, 3), result.stderr  # beside other tests the time of a step may stay open
    whole = transcript("maxview compare linen-vs-nnx")
    floors = whole.index("  ✓ same program   ✓ same bits   ✓ same checkpoint")
    # either clock may decide; numbers of other widths fold the sentence elsewhere
    decided = [line for line in whole if not line.startswith(("  No difference", "  +"))]
    assert_shown(decided if result.returncode == 0 else whole[floors : floors + 1], result.stdout)
    if result.returncode == 0:
        said = " ".join(result.stdout.split())
        # the hosts alone are timed if the loops do not decide
        assert "by loops in turns" in said or "by host loops without their program" in said
    (page,) = re.findall(r"^  page  (file://\S+)$", result.stdout, re.MULTILINE)
    assert Path(unquote(urlsplit(page).path)).is_file()


@pytest.mark.long
@pytest.mark.skipif(SEEDS is None, reason="MAXVIEW_SEEDS is not set: the logs of real runs are not here")
def test_ingest_prints_the_readmes_output(run: Run, tmp_path: Path) -> None:
    page = next(Path(str(SEEDS)).glob("002_*"))
    (tmp_path / "page.txt").write_bytes(page.read_bytes())
    result = run(["ingest", "page.txt"], tmp_path)
    assert result.returncode == 3, result.stderr
    assert_shown(transcript("maxview ingest page.txt"), result.stdout)


def test_the_two_commands_are_in_the_readme() -> None:
    assert "pip install uv && uv run maxview compare linen-vs-nnx" in README
    tests = 'pip install uv && uv run --group dev pytest -m "not long"'
    assert tests in README
    assert tests in (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")


def test_real_output_is_in_the_first_thirty_lines() -> None:
    first = "\n".join(README.splitlines()[:30])
    assert "01_base · linen" in first
    assert "✓ same program" in first


def test_every_command_is_listed() -> None:
    from flows.cli.app import app

    names = {name for name in app if not name.startswith("-")}
    commands = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert names == set(re.findall(r"^\| `maxview (\w+)", commands, re.MULTILINE))


def test_links_have_targets() -> None:
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for link in re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text(encoding="utf-8")):
            assert (path.parent / link).exists(), f"{path}: {link}"
