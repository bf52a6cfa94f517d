"""The working tree of a clone, with its uncommitted changes, is a version that can be compared; the clone is only read.

Each test starts in a clone with a remote, on a feature branch with a commit that is not pushed.
"""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from configs.comparison import load_comparison
from configs.errors import ConfigError
from configs.nightly import NightlyComparison
from questions.bisect.points import find_span
from questions.nightly.plan_night import pin_arms
from tasks.records.plan import ArmOverrides, RunPlan
from tasks.resolve import working_tree
from tasks.resolve.options import BisectOptions
from tasks.resolve.plans import Request, resolve
from tasks.resolve.working_tree import describe_version, find_source, resolve_version
from tasks.store.store import open_store
from tests.wording.sentences import Wording

pytestmark = pytest.mark.flows

type Git = Callable[..., str]
type Plans = Callable[..., dict[str, RunPlan]]


@pytest.fixture
def clone(repository: Path, tmp_path: Path) -> Path:
    run(tmp_path, "clone", "-q", f"file://{repository}", "clone")
    folder = tmp_path / "clone"
    run(folder, "checkout", "-q", "-b", "feature")
    (folder / ".gitignore").write_text("*.log\n")
    run(folder, "add", "-A")
    run(folder, "commit", "-q", "-m", "ignore logs")
    return folder


def run(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=x", "-c", "user.email=x@localhost", "-c", "protocol.file.allow=always"]
    done = subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip("\n")


@pytest.fixture
def git(clone: Path) -> Git:
    """git(*words) in the clone."""
    return lambda *words: run(clone, *words)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def plan(clone: Path, tmp_path: Path, cache: Path) -> Plans:
    """plan(**options): arm → plan of main-vs-branch in the clone."""

    def make(**options: str) -> dict[str, RunPlan]:
        arms = ArmOverrides(**{"repository": str(clone)} | options)  # type: ignore[arg-type]
        request = Request(comparison="main-vs-branch", repeats=1, arms=arms)
        return {one.arm: one for one in resolve(request, tmp_path / "out", cache=cache)}

    return make


def edit(clone: Path, text: str = "edited") -> None:
    (clone / "model" / "train.py").write_text(f"print({text!r})\n")


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_tree_as_it_is_runs(clone: Path, plan: Plans, git: Git) -> None:
    edit(clone)
    git("add", "-A")
    edit(clone, "edited again")  # the index holds the first edit
    (clone / "model" / "new.py").write_text("x = 1\n")
    (clone / "model" / "run.log").write_text("ignored\n")
    (clone / "model" / "__init__.py").chmod(0o755)
    (clone / "link").symlink_to("model")
    branch = plan()["branch"]
    assert branch.ref == "your tree (link and 3 more)"
    assert branch.checkout is not None
    done = subprocess.run(branch.argv, cwd=branch.checkout, capture_output=True, text=True, check=True)
    assert done.stdout == "edited again\n"
    folder = Path(branch.checkout)
    assert (folder / "model" / "new.py").read_text() == "x = 1\n"
    assert not (folder / "model" / "run.log").exists()
    assert os.access(folder / "model" / "__init__.py", os.X_OK)
    assert os.readlink(folder / "link") == "model"
    head = plan(branch="HEAD")["branch"].version
    assert head is not None
    assert (head.sha, head.left_out) == (git("rev-parse", "HEAD"), 4)


def test_a_deleted_file_is_missing(clone: Path, plan: Plans) -> None:
    (clone / "model" / "train.py").unlink()
    (clone / "model" / "train").mkdir()
    (clone / "model" / "train" / "__main__.py").write_text("")
    branch = plan()["branch"]
    assert branch.ref == "your tree (train.py and 1 more)"
    assert not (Path(str(branch.checkout)) / "model" / "train.py").exists()


def test_the_clone_is_only_read(clone: Path, cache: Path, git: Git) -> None:
    edit(clone, "staged")
    git("add", "-A")
    git("stash", "-q")
    edit(clone, "staged too")
    git("add", "-A")
    edit(clone)
    before = files_of(clone), git("for-each-ref"), git("stash", "list")
    ref = resolve_version(str(clone), ".", cache)
    describe_version(ref, str(clone), find_source(str(clone), ref.sha, cache))
    assert (files_of(clone), git("for-each-ref"), git("stash", "list")) == before
    with pytest.raises(subprocess.CalledProcessError):
        git("cat-file", "-e", ref.sha)


def test_equal_files_are_one_run_committed_or_not(clone: Path, plan: Plans, git: Git) -> None:
    edit(clone)
    first = plan()["branch"]
    assert plan()["branch"] == first
    git("commit", "-q", "-a", "-m", "the edit")
    committed = plan()["branch"]
    assert (committed.ref, committed.commit) == ("feature", git("rev-parse", "HEAD"))
    assert committed.run_name == first.run_name
    edit(clone, "another")
    assert plan()["branch"].run_name != first.run_name
    edit(clone, "edited")  # as before
    assert plan()["branch"].run_name == first.run_name


def test_an_edit_of_equal_length_within_a_second_of_the_commit_is_seen(clone: Path, cache: Path, git: Git) -> None:
    git("config", "core.trustctime", "false")  # without a wait: the times of a file tell git nothing here
    edit(clone, "aaaa")
    git("commit", "-q", "-a", "-m", "the first")
    # git's rule: a file as old as the index may have changed after it, and is read
    index, file = clone / ".git" / "index", clone / "model" / "train.py"
    os.utime(file, (1e9, 1e9))
    git("update-index", "-q", "--really-refresh")
    edit(clone, "bbbb")
    for path in (file, index):
        os.utime(path, (1e9, 1e9))
    assert resolve_version(str(clone), ".", cache).name == "your tree (train.py)"


def test_without_changes_it_is_the_branch(clone: Path, plan: Plans, git: Git, wording: Wording) -> None:
    os.utime(clone / "model" / "train.py", (0, 0))
    (clone / "model" / "run.log").write_text("ignored\n")
    branch = plan()["branch"]
    assert (branch.ref, branch.commit) == ("feature", git("rev-parse", "feature"))
    git("checkout", "-q", "--detach")
    assert plan()["branch"].ref == "HEAD"
    (clone / "model" / "run.log").unlink()
    git("checkout", "-q", "main")
    with pytest.raises(ConfigError, match=r"'main' .*itself") as error:
        plan()
    wording("errors", error.value)


def test_it_is_found_by_its_hash_after_another_edit(clone: Path, plan: Plans, git: Git) -> None:
    edit(clone)
    first = plan()["branch"]
    edit(clone, "another")
    git("commit", "-q", "-a", "-m", "another")
    git("gc", "-q", "--prune=now")
    assert first.commit is not None
    for name in (first.commit, first.commit[:9], f"{first.ref}:{first.commit}"):
        again = plan(branch=name)["branch"]
        assert (again.ref, again.commit, again.run_name) == (first.ref, first.commit, first.run_name)
    with pytest.raises(ConfigError, match="no branch, tag or commit"):
        plan(branch="0" * 9)


def test_the_plans_name_both_versions_and_their_distance(clone: Path, plan: Plans, git: Git) -> None:
    edit(clone)
    (clone / "README.md").write_bytes(b"not UTF-8: \xff\n")
    git("checkout", "-q", "main")  # the other branch moves on
    git("commit", "-q", "--allow-empty", "-m", "only on main")
    git("checkout", "-q", "feature")
    left, right = (plan()[arm].version for arm in ("baseline", "branch"))
    assert left is not None
    assert right is not None
    assert (left.name, left.sha, left.subject, left.head, left.ahead) == (
        "main",
        git("rev-parse", "main"),
        "only on main",
        "",
        1,
    )
    assert (right.name, right.head, right.subject, right.ahead) == (
        "your tree (README.md and 1 more)",
        git("rev-parse", "HEAD"),
        "ignore logs",
        1,
    )
    assert right.changed == ("README.md", "model/train.py")
    assert left.different == right.different == (".gitignore", "README.md", "model/train.py")
    assert right.read == 1  # model/train.py
    assert git("diff", "HEAD", "--", "model/train.py") in right.diff
    assert "not UTF-8: \ufffd" in right.diff
    assert right.short == right.name  # git knows no commit of it
    assert RunPlan.model_validate_json(plan()["branch"].model_dump_json()).version == right


def test_a_committed_change_has_the_diff_of_what_the_trainer_reads(clone: Path, plan: Plans, git: Git) -> None:
    edit(clone)
    (clone / "README.md").write_text("prose\n")
    git("add", "--all")
    git("commit", "-q", "-m", "another")
    left, right = (plan()[arm].version for arm in ("baseline", "branch"))
    assert left is not None
    assert right is not None
    assert not left.diff
    assert right.diff == git("diff", "main", "HEAD", "--", "model/train.py")


@pytest.mark.parametrize("kind", ["worktree", "shallow", "submodule", "subfolder", "detached"])
def test_it_works_in_every_clone_with_files(kind: str, clone: Path, repository: Path, cache: Path, git: Git) -> None:
    folder = clone.parent / kind
    if kind == "worktree":
        git("worktree", "add", "-q", "-b", "side", str(folder))
    elif kind == "shallow":
        run(clone.parent, "clone", "-q", "--depth=1", "--branch=feat/x", f"file://{repository}", str(folder))
    elif kind == "submodule":
        run(clone.parent, "init", "-q", str(folder))
        run(folder, "submodule", "--quiet", "add", f"file://{repository}", "inner")
        folder /= "inner"
    elif kind == "subfolder":
        folder = clone
    else:
        folder = clone
        git("checkout", "-q", "--detach")
    edit(folder, kind)
    options = ArmOverrides(baseline="HEAD", repository=str(folder / "model" if kind == "subfolder" else folder))
    plans = resolve(Request(comparison="main-vs-branch", repeats=1, arms=options), cache.parent / "out", cache=cache)
    assert plans[1].ref == "your tree (train.py)"
    assert (Path(str(plans[1].checkout)) / "model" / "train.py").read_text() == f"print({kind!r})\n"
    assert plans[0].commit == run(folder, "rev-parse", "HEAD")


def test_a_bare_clone_and_an_address_have_no_working_tree(clone: Path, cache: Path, git: Git) -> None:
    run(clone.parent, "clone", "-q", "--bare", str(clone), "bare")
    edit(clone)
    for place in (str(clone.parent / "bare"), f"file://{clone}"):
        assert resolve_version(place, ".", cache).sha == git("rev-parse", "HEAD")


def test_runs_in_the_clone_are_no_part_of_it(clone: Path, cache: Path) -> None:
    edit(clone)
    before = resolve_version(str(clone), ".", cache)
    store = open_store(clone / "maxview-out")
    store.run("a-run").create()
    (store.path / "runs" / "a-run" / "log").write_text("a log\n")
    assert resolve_version(str(clone), ".", cache) == before


def test_large_untracked_files_are_refused(
    clone: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    monkeypatch.setattr(working_tree, "MAX_UNTRACKED_BYTES", 3 << 20)
    (clone / "data.bin").write_bytes(bytes(4 << 20))
    with pytest.raises(ConfigError, match=r"data\.bin has 4 MiB: .*\.gitignore") as error:
        resolve_version(str(clone), ".", cache)
    wording("errors", error.value)


def test_a_bisection_and_a_night_take_commits_only(clone: Path, git: Git, wording: Wording) -> None:
    edit(clone)
    for bad in (".", "HEAD", "@"):
        with pytest.raises(ConfigError, match=r"compare and preflight|a bisection") as error:
            find_span(BisectOptions(good="main", bad=bad, repository=str(clone)))
        wording("errors", error.value, COMMIT=git("rev-parse", "feature")[:9])
    assert find_span(BisectOptions(good="main", bad="feature", repository=str(clone))).bad.name == "feature"
    item = NightlyComparison(name="main-vs-branch", repository=str(clone))
    arms = pin_arms(load_comparison("main-vs-branch"), item, None)
    assert arms.branch == f"HEAD:{git('rev-parse', 'HEAD')}"
    with pytest.raises(ConfigError, match="only compare and preflight take it"):
        pin_arms(load_comparison("main-vs-branch"), item.replace(branch="."), None)
