"""The commits of lines, in a real git repository."""

import subprocess
from pathlib import Path

import pytest

from questions.explain.touched_lines import Refs, name_commits
from tasks.records.explanation import CodeLine

pytestmark = pytest.mark.flows

BEFORE = "a = 1\nb = 2\nc = 3\nd = 4\n"
AFTER = "a = 1\nb = 20\nnew = 0\nd = 4\n"  # b changed; c replaced


def git(folder: Path, *words: str) -> str:
    own = ["-c", "user.name=x", "-c", "user.email=x@y.z"]
    return subprocess.run(
        ["git", "-C", folder, *own, *words], capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.fixture
def refs(tmp_path: Path) -> Refs:
    git(tmp_path, "init", "-q")
    commits = []
    for subject, text in (("Begin", BEFORE), ("Change b and c", AFTER), ("Elsewhere", AFTER + "e = 5\n")):
        (tmp_path / "code.py").write_text(text)
        git(tmp_path, "add", ".")
        git(tmp_path, "commit", "-q", "-m", subject)
        commits.append(git(tmp_path, "rev-parse", "HEAD"))
    return Refs(tmp_path, commits[0], commits[2])


def line(refs: Refs, number: int) -> CodeLine:
    return CodeLine(file="code.py", line=number, path=str(refs.clone / "code.py"))


def test_a_line_of_the_candidate_has_the_commit_that_wrote_it(refs: Refs) -> None:
    lines = [line(refs, number) for number in (1, 2, 3, 5)]
    found = name_commits(lines, refs, of_candidate=True, root=str(refs.clone))
    assert [found.get(one, "").partition(" ")[2] for one in lines] == [
        "",
        "Change b and c",
        "Change b and c",
        "Elsewhere",
    ]


def test_a_line_of_the_baseline_has_the_commit_that_removed_it(refs: Refs) -> None:
    lines = [line(refs, number) for number in (1, 3)]
    found = name_commits(lines, refs, of_candidate=False, root=str(refs.clone))
    assert [found.get(one, "").partition(" ")[2] for one in lines] == ["", "Change b and c"]


def test_a_line_of_a_package_has_no_commit(refs: Refs) -> None:
    package = CodeLine(file="jax/x.py", line=1, path="/usr/lib/python3/site-packages/jax/x.py")
    assert name_commits([package, CodeLine(file="", line=0)], refs, of_candidate=True, root=str(refs.clone)) == {}
