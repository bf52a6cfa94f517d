"""Hostile names, refs, paths and values: refused with one message, and nothing is run or written."""

from collections.abc import Callable
from pathlib import Path

import pytest

from configs.errors import ConfigError
from flows.cli.app import call_command
from tasks.records.plan import ArmOverrides
from tasks.resolve.plans import Request, resolve
from tasks.store.atomic import StoreError
from tasks.store.store import open_store

pytestmark = pytest.mark.long

WORDS = (
    "$(touch ../owned)",
    "`touch ../owned`",
    "; touch ../owned",
    "| tee ../owned",
    "--upload-pack=touch ../owned",
    "-x",
    "../../beside",
    "%2e%2e/beside",
    "..%2f..",
    "/etc/passwd",
    "file:///etc/passwd",
    ".hidden",
    "\u0430dmin",  # a Cyrillic letter that looks like a Latin one
    "x" * 4_000,
    "x" * 10_000,
    "con",
    "{{ 7*7 }}",
    "{% raw %}",
    "<script>alert(1)</script>",
    "[bold]x[/] [link=http://evil.invalid]y[/link]",
    "@{-1}",
    "a..b",
    "x.lock",
    "\x1b]0;owned\x07",
    "\x9b2J",
    "a\nb",
    "\u202egpj.exe",
    "\udcff",
)
SURFACES: dict[str, Callable[[str], list[str]]] = {
    "comparison": lambda word: ["compare", word],
    "case": lambda word: ["compare", "linen-vs-nnx", f"--case={word}"],
    "target": lambda word: ["compare", "linen-vs-nnx", f"--target={word}"],
    "model": lambda word: ["compare", "linen-vs-nnx", f"--model={word}"],
    "override": lambda word: ["compare", "linen-vs-nnx", f"--set={word}"],
    "key": lambda word: ["compare", "linen-vs-nnx", f"--set={word}=1"],
    "value": lambda word: ["compare", "linen-vs-nnx", f"--set=steps={word}"],
    "branch": lambda word: ["compare", "main-vs-branch", f"--branch={word}"],
    "baseline": lambda word: ["compare", "main-vs-branch", f"--baseline={word}", "--branch=HEAD"],
    "repository": lambda word: ["compare", "main-vs-branch", f"--repository={word}"],
    "arm": lambda word: ["compare", "linen-vs-nnx", f"--with={word}:jax==0.11.0"],
    "log": lambda word: ["ingest", "--", word, word],
    "checkpoint": lambda word: ["verify", "--", word],
    "resolved case": lambda word: ["resolve", "--", word],
    "command": lambda word: [word],
}


@pytest.mark.parametrize("surface", SURFACES)
def test_every_hostile_word_is_refused_everywhere(
    surface: str, untouched: Path, capsys: pytest.CaptureFixture[str], find_acting: Callable[[str], list[str]]
) -> None:
    for word in WORDS:
        if surface == "log" and word == "/etc/passwd":
            continue  # an existing file is read, and is not a log
        assert call_command(SURFACES[surface](word)) == 2, word
        shown = capsys.readouterr()
        assert shown.out == "", word
        assert shown.err.strip(), word
        assert "Traceback" not in shown.err, word
        assert find_acting(shown.err) == [], word
        assert len(shown.err) < 20_000, word
    assert list(untouched.iterdir()) == []


def test_values_are_data(untouched: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = (
        "steps=__import__('os').system('touch ../owned')",
        "steps=!!python/object/apply:os.system ['touch ../owned']",
        "steps=!!python/name:os.system",
        "steps=&a [*a, *a]",
        "steps={a: &a [1, 1], b: [*a, *a]}",
        "steps={"
        + "a0: &a0 [l, l, l, l, l, l, l, l, l, l]"
        + "".join(f", a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12))
        + "}",
        "steps=" + "[" * 1_500,
        "steps=" + "9" * 4_000,
        "steps=1e400",
        "steps=.nan",
        "learning_rate=.inf",
        "run_name=../../beside/x",
        "base_output_directory=../beside",
        "metrics_file=../beside/precious",
        "__class__=1",
        "=",
    )
    for value in values:
        assert call_command(["resolve", "01_base", f"--set={value}"]) == 2, value
        shown = capsys.readouterr()
        assert shown.err.startswith("maxview: "), value
        assert "Traceback" not in shown.err, value


@pytest.mark.parametrize("out", ["x" * 300, "precious/below", "s3://bucket/x", "http://evil.invalid/x"])
def test_impossible_output_folders(out: str, untouched: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (untouched / "precious").write_text("a file")
    assert call_command(["compare", "linen-vs-nnx", "--out", out]) == 2
    assert "--out" in capsys.readouterr().err
    assert [path.name for path in untouched.iterdir()] == ["precious"]


@pytest.mark.parametrize("word", [*WORDS, "a\0b"])
def test_flow_parameters_are_checked_where_they_are_used(word: str, untouched: Path) -> None:
    """A run form has no command line that checks before it."""
    out = untouched / "out"
    requests = (
        Request(comparison=word),
        Request(comparison="linen-vs-nnx", cases=(word,)),
        Request(comparison="linen-vs-nnx", target=word),
        Request(comparison="linen-vs-nnx", model=word),
        Request(comparison="linen-vs-nnx", overrides=(f"steps={word}",)),
        Request(comparison="main-vs-branch", arms=ArmOverrides(branch=word)),
        Request(comparison="main-vs-branch", arms=ArmOverrides(repository=word, branch="HEAD")),
    )
    for request in requests:
        with pytest.raises(ConfigError) as caught:
            resolve(request, out, cache=untouched / "cache")
        assert str(caught.value)
    assert not out.exists()


@pytest.mark.parametrize("word", [word for word in WORDS if word not in ("con", "a..b", "x.lock")])
def test_a_name_cannot_leave_the_store(word: str, untouched: Path) -> None:
    store = open_store(untouched / "out")
    with pytest.raises(StoreError):
        store.run(word)
    with pytest.raises(StoreError):
        store.comparison("a", word, "b")
    with pytest.raises(StoreError):
        store.comparison(word, "a", "b")
    with pytest.raises(StoreError):
        store.comparison("a", "b", "c").file(word)


@pytest.mark.parametrize("name", ["..", "../x", "a/../../x", "/etc/passwd", "", "a//b"])
def test_a_file_name_cannot_leave_the_store(name: str, untouched: Path) -> None:
    files = open_store(untouched / "out").files
    for act in (lambda: files.write(name, b"x"), lambda: files.read(name), lambda: files.delete(name)):
        with pytest.raises(StoreError):
            act()
