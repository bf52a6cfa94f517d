"""A commit's files in a folder of their own: exactly they, once, and without a trace in the user's clone."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.checkout import FOLDER, KEPT_S, CheckoutError, make_checkout, prune_checkouts

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


def test_it_is_made_once_and_what_python_leaves_is_no_change(repository: Path, run_git: Git, cache: Path) -> None:
    sha = run_git("rev-parse", "main")
    folder = make_checkout(str(repository), sha, cache)
    (folder / "model" / "__pycache__").mkdir()
    (folder / "model" / "__pycache__" / "train.cpython-312.pyc").write_bytes(b"x")
    first = (folder / "model" / "train.py").stat().st_mtime_ns
    assert make_checkout("/nowhere/any/more", sha, cache) == folder
    assert (folder / "model" / "train.py").stat().st_mtime_ns == first


@pytest.mark.parametrize("name", ["model/train.py", "model/new.py"])
def test_a_checkout_that_somebody_has_changed_is_refused(
    name: str, repository: Path, run_git: Git, cache: Path
) -> None:
    sha = run_git("rev-parse", "main")
    folder = make_checkout(str(repository), sha, cache)
    (folder / name).write_text("x = 1\n")
    with pytest.raises(CheckoutError, match=f"has changes .*{name}.*remove the folder"):
        make_checkout(str(repository), sha, cache)


def test_a_commit_that_is_not_there(repository: Path, cache: Path) -> None:
    with pytest.raises(CheckoutError, match="cannot be checked out"):
        make_checkout(str(repository), "0" * 40, cache)
    assert not list((cache / FOLDER).iterdir())  # nothing half-made


def test_two_at_once_get_the_same_folder(repository: Path, run_git: Git, cache: Path) -> None:
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


def test_what_nobody_uses_any_more_is_removed(repository: Path, run_git: Git, cache: Path) -> None:
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
