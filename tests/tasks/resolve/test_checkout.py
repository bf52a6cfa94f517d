"""A checkout has exactly a commit's files, is created once, and leaves the user's clone unchanged."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.resolve.checkout import (
    COMMIT,
    FOLDER,
    KEPT_S,
    CheckoutError,
    check_checkout,
    hash_folder,
    make_checkout,
    prune_checkouts,
)
from tests.wording.sentences import Wording

pytestmark = pytest.mark.flows

type Git = Callable[..., str]


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.mark.parametrize("kind", ["folder", "address"])
def test_the_folder_holds_the_commit_and_the_clone_is_untouched(
    kind: str, repository: Path, run_git: Git, cache: Path
) -> None:
    (repository / "model" / "train.py").write_text("print('not committed')\n")
    hook = repository / ".git" / "hooks" / "post-checkout"
    hook.write_text("#!/bin/sh\ntouch owned\n")
    hook.chmod(0o755)
    before = {path: path.stat().st_mtime_ns for path in repository.rglob("*")}
    sha = run_git("rev-parse", "feat/x")
    folder = make_checkout(str(repository) if kind == "folder" else f"file://{repository}", sha, cache)
    assert (folder / "model" / "train.py").read_text() == "print('two')\n"
    assert not (folder / "owned").exists()
    assert {path: path.stat().st_mtime_ns for path in repository.rglob("*")} == before


def test_it_is_created_once(repository: Path, run_git: Git, cache: Path) -> None:
    sha = run_git("rev-parse", "main")
    folder = make_checkout(str(repository), sha, cache)
    first = (folder / "model" / "train.py").stat().st_mtime_ns
    assert make_checkout("/nowhere/any/more", sha, cache) == folder
    assert (folder / "model" / "train.py").stat().st_mtime_ns == first


CHANGES: dict[str, Callable[[Path], object]] = {
    "a source": lambda folder: (folder / "model" / "train.py").write_text("x = 1\n"),
    "a new source": lambda folder: (folder / "model" / "new.py").write_text("x = 1\n"),
    "no source": lambda folder: (folder / "model" / "train.py").unlink(),
    "a program": lambda folder: (folder / "model" / "train.py").chmod(0o755),
    # Python runs bytecode whose recorded source time and size match
    "compiled": lambda folder: write(folder / "model" / "__pycache__" / "train.cpython-312.pyc"),
    # the next git command there would run the program in its settings
    "settings of git": lambda folder: write(folder / ".git" / "config"),
    "another commit": lambda folder: (folder / COMMIT).write_text('{"commit": "tree 0", "submodules": {}}'),
    "a pipe": lambda folder: os.mkfifo(folder / "model" / "pipe"),
}


def write(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"x")


@pytest.mark.parametrize("change", CHANGES)
def test_a_checkout_changed_by_a_run_is_replaced(
    change: str, repository: Path, run_git: Git, cache: Path, wording: Wording
) -> None:
    sha = run_git("rev-parse", "main")
    folder = make_checkout(str(repository), sha, cache)
    check_checkout(str(folder / "model"), sha)
    CHANGES[change](folder)
    with pytest.raises(CheckoutError, match=f"{sha}: ") as error:
        check_checkout(str(folder / "model"), sha)  # before the next run starts in it
    wording("errors", error.value, SHA=sha, NAME=sha[:9])
    assert make_checkout(str(repository), sha, cache) == folder
    check_checkout(str(folder), sha)
    assert sorted(path.name for path in folder.rglob("*") if path.is_file()) == sorted(
        [COMMIT, "__init__.py", "base.yml", "train.py"]
    )
    assert os.listdir(cache / FOLDER) == [sha]


def test_files_are_as_committed_despite_attributes_and_settings(
    repository: Path, run_git: Git, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "gitconfig"
    settings.write_text(
        f'[filter "own"]\n\tsmudge = touch {tmp_path}/owned; cat\n\tclean = cat\n[core]\n\tautocrlf = true\n'
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    (repository / ".gitattributes").write_text("*.py filter=own\n*.yml text eol=crlf ident\n")
    run_git("add", "-A")
    run_git("commit", "-q", "-m", "attributes")
    folder = make_checkout(str(repository), run_git("rev-parse", "HEAD"), cache)
    assert b"\r" not in (folder / "configs" / "base.yml").read_bytes()
    assert not (tmp_path / "owned").exists()


def test_a_missing_commit(repository: Path, cache: Path) -> None:
    with pytest.raises(CheckoutError, match="cannot be checked out"):
        make_checkout(str(repository), "0" * 40, cache)
    assert not list((cache / FOLDER).iterdir())  # no incomplete checkout


def test_two_simultaneous_calls_get_the_same_folder(repository: Path, run_git: Git, cache: Path) -> None:
    sha = run_git("rev-parse", "feat/x")
    made: list[Path] = []
    threads = [
        threading.Thread(target=lambda: made.append(make_checkout(str(repository), sha, cache))) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(made) == {cache / FOLDER / sha}
    assert len(made) == 6
    assert os.listdir(cache / FOLDER) == [sha]


def test_unused_checkouts_are_removed(repository: Path, run_git: Git, cache: Path) -> None:
    old, used = (make_checkout(str(repository), run_git("rev-parse", name), cache) for name in ("main", "feat/x"))
    unfinished = cache / FOLDER / ".0123-x"
    unfinished.mkdir()
    long_ago = old.stat().st_mtime - KEPT_S - 1
    for folder in (old, used, unfinished):
        os.utime(folder, (long_ago, long_ago))
    make_checkout(str(repository), used.name, cache)
    assert set(prune_checkouts(cache)) == {old, unfinished}
    assert used.is_dir()
    assert not old.exists()


def test_a_folders_hash_equals_gits(repository: Path, run_git: Git) -> None:
    (repository / "empty").touch()
    (repository / "über").write_text("ü\n")
    (repository / "run").write_text("#!/bin/sh\n")
    (repository / "run").chmod(0o755)
    os.symlink("../elsewhere", repository / "link")
    os.symlink("model", repository / "linked")  # git stores a link to a folder as a link
    # between these git sorts `a/` after `a.b` and before `a0`
    for name in ("a/b", "a.b", "a0", "a/c/d"):
        (repository / name).parent.mkdir(exist_ok=True)
        (repository / name).write_text(name)
    (repository / "no files" / "inside").mkdir(parents=True)
    run_git("add", "-A")
    run_git("commit", "-q", "-m", "more")
    wanted = run_git("rev-parse", "HEAD^{tree}")
    (repository / ".git").rename(repository.parent / "git")
    assert hash_folder(repository, "sha1").hex() == wanted
    (repository / ".known").touch()
    assert hash_folder(repository, "sha1", ignored=".known").hex() == wanted
    assert hash_folder(repository, "sha1").hex() != wanted


def test_submodules_leave_empty_folders(repository: Path, run_git: Git) -> None:
    commit = "1" * 40
    run_git("update-index", "--add", "--cacheinfo", f"160000,{commit},libraries/one")
    run_git("commit", "-q", "-m", "a submodule")
    wanted = run_git("rev-parse", "HEAD^{tree}")
    (repository / "libraries" / "one").mkdir(parents=True)
    (repository / ".git").rename(repository.parent / "git")
    assert hash_folder(repository, "sha1", submodules={"libraries/one": commit}).hex() == wanted
    assert hash_folder(repository, "sha1").hex() != wanted


def test_the_newer_algorithm(tmp_path: Path) -> None:
    # the empty tree, from git's own tests (t/oid-info/hash-info)
    assert hash_folder(tmp_path, "sha1").hex() == "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
    assert hash_folder(tmp_path, "sha256").hex() == "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"
