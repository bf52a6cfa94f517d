"""In a user's clone, which has a remote, the code that git names is the code that runs."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from configs.comparison import load_comparison
from configs.errors import ConfigError
from tasks.records.plan import ArmOverrides
from tasks.resolve.arm_trainers import prepare_trainers
from tasks.resolve.refs import resolve_ref

pytestmark = pytest.mark.long

NAMES = (
    "HEAD", "@", "HEAD~1", "HEAD^", "@~1", "main", "main~1", "feature", "feature^", "origin/main", "origin/HEAD",
    "origin", "heads/main", "remotes/origin/main", "@{u}", "main@{upstream}", "HEAD@{0}", "@{-1}", "v1", "v1^{commit}",
    "stash", "stash@{0}", "merged", "merged^2", "merged^2~1", "refs/heads/main", "refs/remotes/origin/HEAD",
)  # fmt: skip


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=x", "-c", "user.email=x@localhost", "-c", "protocol.file.allow=always"]
    done = subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(folder: Path, text: str) -> None:
    """Commit a trainer that prints `text`."""
    (folder / "model" / "train.py").write_text(f"print({text!r})\n")
    git(folder, "commit", "-q", "-a", "-m", text)


@pytest.fixture
def upstream(repository: Path) -> Path:
    commit(repository, "pushed")
    git(repository, "tag", "-a", "-m", "annotated", "v1")
    git(repository, "checkout", "-q", "-b", "merged")
    git(repository, "merge", "-q", "-s", "ours", "-m", "merge", "feat/x")
    git(repository, "checkout", "-q", "main")
    return repository


def clone_fresh(upstream: Path, folder: Path, *options: str) -> Path:
    git(upstream.parent, "clone", "-q", *options, f"file://{upstream}", str(folder))
    return folder


def clone_ahead(upstream: Path, folder: Path) -> Path:
    clone_fresh(upstream, folder)
    commit(folder, "not pushed")
    return folder


def clone_behind(upstream: Path, folder: Path) -> Path:
    clone_fresh(upstream, folder)
    commit(upstream, "pushed later")
    git(folder, "fetch", "-q")
    return folder


def clone_diverged(upstream: Path, folder: Path) -> Path:
    clone_ahead(upstream, folder)
    commit(upstream, "pushed later")
    git(folder, "fetch", "-q")
    return folder


def clone_feature(upstream: Path, folder: Path) -> Path:
    clone_fresh(upstream, folder)
    git(folder, "checkout", "-q", "-b", "feature")
    commit(folder, "a feature")
    return folder


def clone_detached(upstream: Path, folder: Path) -> Path:
    clone_ahead(upstream, folder)
    git(folder, "checkout", "-q", "--detach", "HEAD~1")
    commit(folder, "on no branch")
    return folder


def clone_stashed(upstream: Path, folder: Path) -> Path:
    clone_feature(upstream, folder)
    (folder / "model" / "train.py").write_text("print('stashed')\n")
    git(folder, "stash", "-q")
    return folder


def clone_dirty(upstream: Path, folder: Path) -> Path:
    clone_feature(upstream, folder)
    (folder / "model" / "train.py").write_text("print('edited')\n")
    return folder


def add_worktree(upstream: Path, folder: Path) -> Path:
    main = clone_ahead(upstream, folder.parent / "main")
    git(main, "worktree", "add", "-q", "-b", "feature", str(folder), "origin/main")
    commit(folder, "in a worktree")
    return folder


def clone_shallow(upstream: Path, folder: Path) -> Path:
    clone_fresh(upstream, folder, "--depth=1")
    commit(folder, "on a shallow clone")
    return folder


def clone_bare(upstream: Path, folder: Path) -> Path:
    return clone_fresh(upstream, folder, "--bare")


def add_submodule(upstream: Path, folder: Path) -> Path:
    outer = folder.parent / "outer"
    git(folder.parent, "init", "-q", "-b", "main", str(outer))
    git(outer, "submodule", "--quiet", "add", f"file://{upstream}", "inner")
    git(outer, "commit", "-q", "-m", "outer")
    commit(outer / "inner", "in a submodule")
    return outer / "inner"


CLONES = {
    "fresh": clone_fresh, "ahead": clone_ahead, "behind": clone_behind, "diverged": clone_diverged,
    "feature": clone_feature, "detached": clone_detached, "stashed": clone_stashed, "dirty": clone_dirty,
    "worktree": add_worktree, "shallow": clone_shallow, "bare": clone_bare, "submodule": add_submodule,
}  # fmt: skip


@pytest.fixture(params=CLONES)
def clone(request: pytest.FixtureRequest, upstream: Path, tmp_path: Path) -> Path:
    return CLONES[request.param](upstream, tmp_path / "clone")


def ask_git(folder: Path, name: str) -> str | None:
    words = ["git", "rev-parse", "--quiet", "--verify", f"{name}^{{commit}}"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def test_a_name_means_what_git_makes_of_it(clone: Path) -> None:
    known = {name: sha for name in NAMES if (sha := ask_git(clone, name))}
    assert {"HEAD", "@", "main", "v1"} <= known.keys()
    for name, sha in known.items():
        assert resolve_ref(str(clone), name).sha == sha, name
        assert resolve_ref(str(clone), sha[:9]).sha == sha
        assert resolve_ref(str(clone), name).found_as == ""


def test_a_name_that_git_does_not_know_is_a_branch_of_the_remote_or_an_error(clone: Path) -> None:
    for name in set(NAMES) - {name for name in NAMES if ask_git(clone, name)}:
        remote = ask_git(clone, f"refs/remotes/origin/{name}")
        if remote is None:
            with pytest.raises(ConfigError, match=re.escape(f"'{name}'")):
                resolve_ref(str(clone), name)
        else:
            ref = resolve_ref(str(clone), name)
            assert (ref.sha, ref.found_as) == (remote, f"origin/{name}")


def test_the_code_that_git_names_is_the_code_that_runs(clone: Path, upstream: Path, tmp_path: Path) -> None:
    first = git(upstream, "rev-list", "--max-parents=0", "main")
    if ask_git(clone, first) is None:  # a shallow clone
        first = git(clone, "rev-parse", "origin/main")
    for name in ("HEAD", "main", "origin/main"):
        sha = ask_git(clone, name)
        if sha in (None, first):
            continue
        options = ArmOverrides(baseline=first, branch=name, repository=str(clone))
        trainer = prepare_trainers(load_comparison("main-vs-branch"), options, tmp_path / "cache")["branch"]
        assert trainer.folder is not None
        words = [trainer.python, "-m", "model.train"]
        done = subprocess.run(words, cwd=trainer.folder, capture_output=True, text=True, check=True)
        assert f"print({done.stdout.strip()!r})" == git(clone, "show", f"{name}:model/train.py"), name
        assert trainer.commit == sha


def test_an_unborn_head_is_not_the_remotes(upstream: Path, tmp_path: Path) -> None:
    folder = clone_fresh(upstream, tmp_path / "clone")
    git(folder, "checkout", "-q", "--orphan", "new")
    for name in ("HEAD", "@", "HEAD~1"):
        with pytest.raises(ConfigError):
            resolve_ref(str(folder), name)


def test_an_ambiguous_name_with_an_ancestor_is_refused(upstream: Path, tmp_path: Path) -> None:
    folder = clone_ahead(upstream, tmp_path / "clone")
    git(folder, "branch", "v1", "main")
    for name in ("v1", "v1~1", "v1^{commit}"):
        with pytest.raises(ConfigError, match="refs/heads/v1 or refs/tags/v1"):
            resolve_ref(str(folder), name)
    assert resolve_ref(str(folder), "refs/heads/v1~1").sha == git(folder, "rev-parse", "main~1")


def test_a_folder_in_the_clone_stands_for_the_clone(
    upstream: Path, tmp_path: Path, use: Callable[[Path], Path]
) -> None:
    folder = clone_feature(upstream, tmp_path / "clone")
    sha = git(folder, "rev-parse", "HEAD")
    assert (use(folder / "model") / "model" / "train.py").read_text() == "print('a feature')\n"
    assert resolve_ref(str(folder / "model"), "HEAD").sha == sha


@pytest.fixture
def use(tmp_path: Path) -> Callable[[Path], Path]:
    """use(folder): the checkout of main-vs-branch's candidate HEAD in a folder of a clone."""

    def make(folder: Path) -> Path:
        options = ArmOverrides(baseline="main", branch="HEAD", repository=str(folder))
        trainer = prepare_trainers(load_comparison("main-vs-branch"), options, tmp_path / "cache")["branch"]
        return Path(str(trainer.folder))

    return make
