"""A folder's tree hash equals git's hash of the same files."""

import os
from collections.abc import Callable
from pathlib import Path

from tasks.resolve.tree_hash import hash_folder

type Git = Callable[..., str]


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
