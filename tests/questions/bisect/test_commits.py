"""The line of commits between two refs, from real git repositories; bad input gives one sentence."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from configs.errors import ConfigError
from questions.bisect.commits import describe_commit, digest_sources, find_dirt, find_inside, find_line
from questions.bisect.points import find_span, read_versions
from tasks.resolve.code_digest import digest_code
from tasks.resolve.options import BisectOptions
from tasks.resolve.refs import ResolvedRef
from tasks.resolve.trainers import trainer_class
from tests.wording.sentences import Wording

type Git = Callable[..., str]


@pytest.fixture
def history(tmp_path: Path) -> tuple[Path, Git]:
    """Three commits on main, then a merge of two commits, then one more; the tag v1 is the first."""
    folder = tmp_path / "history"
    folder.mkdir()

    def git(*words: str) -> str:
        names = ["-c", "user.name=A Nother", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
        argv = ["git", "-C", str(folder), *names, *words]
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()

    def commit(name: str) -> None:
        (folder / f"{name}.py").write_text(f"{name} = 1\n")
        git("add", "-A")
        git("commit", "-qm", f"add {name}")

    git("init", "-q", "-b", "main")
    for name in ("one", "two", "three"):
        commit(name)
    git("tag", "v1", "HEAD~2")
    git("checkout", "-qb", "side")
    commit("left")
    commit("right")
    git("checkout", "-q", "main")
    commit("four")
    git("merge", "-q", "--no-ff", "-m", "merge side", "side")
    commit("five")
    return folder, git


def ref(git: Git, name: str) -> ResolvedRef:
    return ResolvedRef(name=name, sha=git("rev-parse", f"{name}^{{commit}}"))


def test_the_line_follows_first_parents_and_enters_a_merge_on_request(history: tuple[Path, Git]) -> None:
    folder, git = history
    line = find_line(str(folder), ref(git, "v1"), ref(git, "main"))
    subjects = [one.commit.subject for one in line]
    assert subjects == ["add one", "add two", "add three", "add four", "merge side", "add five"]
    merge = line[4]
    assert find_inside(str(folder), merge.parents) == [(git("rev-parse", "main~3"), git("rev-parse", "side"))]
    inside = find_line(
        str(folder), *(ResolvedRef(name="x", sha=sha) for sha in find_inside(str(folder), merge.parents)[0])
    )
    assert [one.commit.subject for one in inside] == ["add three", "add left", "add right"]
    message, stat = describe_commit(str(folder), merge.commit.sha)
    assert message == "merge side"
    assert "left.py" in stat
    assert "right.py" in stat


def test_a_good_commit_from_a_merge_begins_the_line_there(history: tuple[Path, Git]) -> None:
    folder, git = history
    line = find_line(str(folder), ref(git, "side"), ref(git, "main"))
    assert [one.commit.subject for one in line] == ["add right", "merge side", "add five"]


def test_bad_input_is_one_clear_sentence(history: tuple[Path, Git], tmp_path: Path, wording: Wording) -> None:
    folder, git = history
    git("checkout", "-q", "--orphan", "other")
    git("commit", "-qm", "another beginning")
    git("branch", "apart", "v1")
    git("checkout", "-qf", "apart")
    git("commit", "-q", "--allow-empty", "-m", "elsewhere")

    def refused(good: str, bad: str, where: str = str(folder)) -> str:
        with pytest.raises(ConfigError) as caught:
            find_line(where, ref(git, good), ref(git, bad))
        (line,) = caught.value.problems
        return line

    assert refused("main", "v1").endswith("--good v1 --bad main")
    wording("errors", refused("main", "v1"))
    assert "unrelated histories" in refused("other", "main")
    assert refused("apart", "main").endswith(f"try --good {git('rev-parse', 'v1')[:9]}")
    assert refused("main", "main").endswith(
        "are one commit, " + git("rev-parse", "main")[:9] + ": name an earlier --good"
    )
    with pytest.raises(ConfigError, match="git clone it"):
        find_span(BisectOptions(comparison="main-vs-branch", good="v1", bad="main", repository="https://example.org/x"))
    shallow = tmp_path / "shallow"
    subprocess.run(["git", "clone", "-q", "--depth=2", f"file://{folder}", str(shallow)], check=True)
    assert "git fetch --unshallow" in refused("v1", "main", str(shallow))


def test_missing_git_and_a_folder_without_a_clone_are_reported(
    history: tuple[Path, Git], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = history
    plain = BisectOptions(comparison="main-vs-branch", good="v1", bad="main", repository=str(tmp_path))
    with pytest.raises(ConfigError, match="is no git clone"):
        find_span(plain)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ConfigError, match="git is not installed: install it"):
        find_span(plain.replace(repository=str(folder)))


def test_a_dirty_checkout_is_refused_for_head(history: tuple[Path, Git]) -> None:
    folder, _ = history
    (folder / "one.py").write_text("one = 2\n")
    assert find_dirt(str(folder)) == "one.py"
    request = BisectOptions(comparison="main-vs-branch", good="v1", bad="HEAD", repository=str(folder))
    with pytest.raises(ConfigError, match=r"one\.py has uncommitted changes.*--bad"):
        find_span(request)
    assert len(find_span(request.replace(bad="main")).points) == 6


def test_a_comparison_without_refs_has_no_commits() -> None:
    with pytest.raises(ConfigError, match="its arms are no refs"):
        find_span(BisectOptions(comparison="linen-vs-nnx", good="a", bad="b"))


def test_equal_source_has_an_equal_digest_and_other_source_another(history: tuple[Path, Git]) -> None:
    folder, git = history
    before = git("rev-parse", "HEAD")
    (folder / "README.md").write_text("words\n")
    git("add", "-A")
    git("commit", "-qm", "words")
    words = git("rev-parse", "HEAD")
    (folder / "five.py").write_text("five = 2\n")
    git("commit", "-qam", "another five")
    digests = digest_sources(str(folder), [before, words, git("rev-parse", "HEAD")], trainer_class("command"))
    assert digests[before] == digests[words]
    assert len(set(digests.values())) == 2
    # of our own trainer's checkout only the files of a run count
    ours = digest_sources(str(folder), [before, git("rev-parse", "HEAD")], trainer_class("maxview"))
    assert len(set(ours.values())) == 1


def test_comments_docstrings_and_layout_do_not_count() -> None:
    plain = digest_code('def f(x):\n    """Words."""\n    return x + 1\n')
    assert plain == digest_code('def f( x ):  # more words\n    """Others."""\n\n    return x+1\n')
    assert plain != digest_code("def f(x):\n    return x + 2\n")
    assert digest_code("def f(:\n") == ""


@pytest.mark.parametrize(
    ("text", "versions"),
    [
        ("jax==0.9.1..0.9.3", ("jax==0.9.1", "jax==0.9.2", "jax==0.9.3")),
        ("jax==0.9.2..0.9.1", ("jax==0.9.2", "jax==0.9.1")),
        ("jax==0.8.2,0.9.0,0.10.1", ("jax==0.8.2", "jax==0.9.0", "jax==0.10.1")),
    ],
)
def test_a_range_of_versions(text: str, versions: tuple[str, ...]) -> None:
    assert read_versions(text) == versions


@pytest.mark.parametrize(
    "text", ["jax", "jax==0.9.1", "jax==0.8.2..0.9.1", "jax==0.9.1..x", "jax==1,3,2", "jax==1.0..1.0"]
)
def test_an_invalid_range_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match="--packages"):
        read_versions(text)
