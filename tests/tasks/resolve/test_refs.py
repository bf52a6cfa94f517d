"""Names of branches, tags and commits become SHAs; names with another meaning for a program are refused."""

import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from configs.errors import ConfigError
from tasks.resolve.refs import check_repository, pin_ref, resolve_ref
from tests.wording.sentences import Wording

pytestmark = pytest.mark.flows

type Git = Callable[..., str]


@pytest.fixture(params=["folder", "address"])
def where(request: pytest.FixtureRequest, repository: Path) -> str:
    return str(repository) if request.param == "folder" else f"file://{repository}"


@pytest.mark.parametrize(
    ("name", "revision"),
    [
        ("main", "main"), ("feat/x", "feat/x"), ("refs/heads/feat/x", "feat/x"), ("HEAD", "main"),
        ("v1", "main"), ("v2", "feat/x"), ("1234567", "feat/x"), ("$(id>owned)", "feat/x"),
    ],
)  # fmt: skip
def test_a_name_resolves_as_in_git(where: str, run_git: Git, name: str, revision: str) -> None:
    run_git("tag", "v1", "main")
    run_git("tag", "-a", "-m", "annotated", "v2", "feat/x")
    run_git("branch", "1234567", "feat/x")  # a branch with the name of a hash is the branch
    run_git("branch", "$(id>owned)", "feat/x")  # git allows it, like any other name
    assert resolve_ref(where, name).sha == run_git("rev-parse", revision)
    assert not Path("owned").exists()


def test_a_commit_by_its_hash(where: str, repository: Path, run_git: Git) -> None:
    sha = run_git("rev-parse", "feat/x")
    assert resolve_ref(where, sha).sha == sha
    assert resolve_ref(str(repository), sha[:9]).sha == sha


def test_an_ancestor_of_a_name(repository: Path, run_git: Git, tmp_path: Path) -> None:
    """As in git. An address has no history, and a shallow clone only a part of it."""
    for number in range(3):
        run_git("commit", "-q", "--allow-empty", "-m", f"number {number}")
    run_git("tag", "-a", "-m", "annotated", "v3")
    for name in ("HEAD~2", "HEAD^", "v3~1^", "main~0"):
        assert resolve_ref(str(repository), name).sha == run_git("rev-parse", f"{name}^{{commit}}")
    with pytest.raises(ConfigError, match=r"main has no such ancestor$"):
        resolve_ref(str(repository), "main~99")
    with pytest.raises(ConfigError, match="give the commit's hash"):
        resolve_ref(f"file://{repository}", "main~1")
    shallow = tmp_path / "shallow"
    subprocess.run(["git", "clone", "-q", "--depth=1", f"file://{repository}", shallow], check=True)
    with pytest.raises(ConfigError, match="the clone is shallow: git fetch --unshallow"):
        resolve_ref(str(shallow), "HEAD~1")


def test_a_shallow_clone_names_the_command_that_completes_it(repository: Path, run_git: Git, tmp_path: Path) -> None:
    shallow = tmp_path / "shallow"
    subprocess.run(["git", "clone", "-q", "--depth=1", "--branch=feat/x", f"file://{repository}", shallow], check=True)
    assert resolve_ref(str(shallow), "HEAD").sha == run_git("rev-parse", "feat/x")
    with pytest.raises(ConfigError, match="no branch, tag or commit 'main'") as refused:
        resolve_ref(str(shallow), "main")
    remedy = re.search(r"the clone is shallow: (git fetch --unshallow .*)\)", str(refused.value))
    assert remedy is not None
    subprocess.run(shlex.split(remedy[1]), cwd=shallow, check=True, capture_output=True)
    assert resolve_ref(str(shallow), "main").sha == run_git("rev-parse", "main")


def test_a_short_hash_at_an_address_is_refused(repository: Path, run_git: Git) -> None:
    with pytest.raises(ConfigError, match="only full hashes"):
        resolve_ref(f"file://{repository}", run_git("rev-parse", "main")[:9])


@pytest.mark.parametrize(
    "name", ["", "-x", "--upload-pack=touch owned", "a..b", "^a", "a:b", ":/one", "a\nb", "a\0b", "a\x1b[2Jb",
             "x" * 300, "\u202emain"],
)  # fmt: skip
def test_hostile_names_are_refused_before_git_runs(where: str, name: str) -> None:
    with pytest.raises(ConfigError, match="give a branch, a tag, a commit or HEAD~2") as caught:
        resolve_ref(where, name)
    assert str(caught.value).isprintable()
    assert not Path("owned").exists()


@pytest.mark.parametrize(
    "name", ["a b", "~1", "a~x", "main~x", "a^{/x}", "x.lock", "@{-9}", "/x", "x/", "a//b", "a\\b", "*", "m*n",
             "main^@", "main^!", "main^{tree}", "@{u}"],
)  # fmt: skip
def test_names_that_git_does_not_know_are_refused(where: str, name: str, wording: Wording) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"'{name}'")) as error:
        resolve_ref(where, name)
    wording("errors", str(error.value).replace(f"'{name}'", "'NAME'"))


def test_an_unknown_name_gets_the_nearest_suggestion(where: str) -> None:
    with pytest.raises(ConfigError, match=r"'feat/y' \(did you mean 'feat/x'\?\)"):
        resolve_ref(where, "feat/y")


def test_an_ambiguous_name_is_refused(where: str, run_git: Git) -> None:
    run_git("tag", "feat/x", "main")
    with pytest.raises(ConfigError, match="refs/heads/feat/x or refs/tags/feat/x"):
        resolve_ref(where, "feat/x")
    assert resolve_ref(where, "refs/tags/feat/x").sha == run_git("rev-parse", "main")


def test_a_branch_of_the_remote_only(repository: Path, run_git: Git, tmp_path: Path) -> None:
    run_git("clone", "-q", str(repository), str(tmp_path / "clone"))
    assert resolve_ref(str(tmp_path / "clone"), "feat/x").sha == run_git("rev-parse", "feat/x")


def test_a_pinned_ref_is_not_resolved_again(where: str, run_git: Git) -> None:
    before = resolve_ref(where, "main")
    run_git("commit", "-q", "--allow-empty", "-m", "later")
    assert resolve_ref(where, "main").sha != before.sha
    assert resolve_ref(where, pin_ref(before)) == before


@pytest.mark.parametrize(
    "address",
    [
        "ext::sh -c 'touch owned'",
        "-uowned",
        "no/such/folder",
        "https://user:secret@example.invalid/x.git",
        "file://\nx",
    ],
)
def test_invalid_repositories_are_refused(address: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_repository(address)
    assert "secret" not in str(caught.value)
    assert not Path("owned").exists()


def test_a_folder_that_is_not_a_clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    with pytest.raises(ConfigError, match="is no git clone"):
        check_repository(str(tmp_path))


def test_without_git_the_remedy_is_shown(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ConfigError, match="git is not installed"):
        resolve_ref(where, "main")
