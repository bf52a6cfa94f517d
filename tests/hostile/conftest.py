"""Hostile input: arguments and logs."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

STEP = (
    "I0418 00:55:{0:02}.000000 1 metric_logger.py:196] completed step: {0}, seconds: 0.148, TFLOP/s/device: 91.824, "
    "Tokens/s/device: 13838.0, total_weights: 65536, loss: {1}.998"
)

# text that would act if a program interpreted it: markup, scripts, links, templates, formulas, Markdown
ACTING = (
    "<script>window.owned=1</script>",
    "</script><script>window.owned=2</script>",
    '"><img src=http://evil.invalid/x.png onerror=window.owned=3>',
    "<svg onload=window.owned=4><iframe src='javascript:parent.owned=5'></iframe>",
    "![x](http://evil.invalid/y.png) [link](javascript:window.owned=6) <http://evil.invalid>",
    "{{ 7*7 }} {% raw %} ${7*7} #{7*7} `tick` | cell |",
    "=HYPERLINK(\"http://evil.invalid\") =cmd|' /C calc'!A0",
    "[bold red]markup[/] [link=http://evil.invalid]rich[/link]",
)
# sequences that a terminal would interpret: titles, links, cursor moves, screens, clipboards, text directions
TERMINAL = (
    "\x1b]0;owned title\x07",
    "\x1b]8;;http://evil.invalid\x1b\\link\x1b]8;;\x1b\\",
    "\x1b[2J\x1b[H\x1b[31mred\x1b[0m",
    "\x1b]52;c;b3duZWQ=\x07",
    "\x1bP$q\x1b\\ \x1b_apc\x1b\\ \x1b^pm\x1b\\",
    "\x9b31m \x9d0;title\x9c \x85 \x08\x08\x08 \x0b \x7f",
    "\x1b]0;" + "never ended " * 40,
    "\u202egpj.exe\u202c \u2066isolated\u2069 \u200bzero \u2028separator",
)


@pytest.fixture
def acting() -> tuple[str, ...]:
    """Text that would act on a page, in Markdown, in a template or in a spreadsheet."""
    return ACTING


@pytest.fixture
def write_log(tmp_path: Path) -> Callable[..., Path]:
    """Write a log of ten steps whose every other line is hostile."""

    def write(name: str, *, extra: bytes = b"", code: int = 0, last: str = "") -> Path:
        lines = ["XPK Start: Sat Apr 18 00:54:24 UTC 2026"]
        hostile = [*ACTING, *TERMINAL]
        lines += [f"I0418 00:54:30.000000 1 pyconfig.py:25] Config param {text}: {text}" for text in ACTING]
        lines += [
            "I0418 00:54:31.000000 1 a.py:1] Finished saving checkpoint (finalized tmp dir) to `../../../../etc/0`.",
            f"I0418 00:54:31.000000 1 a.py:1] System Information: Jax Version: {ACTING[1]}",
        ]
        for step in range(10):
            lines += [STEP.format(step, 9 - step), *hostile[step % 2 :: 2]]
        lines += [f"{STEP.format(10, 0)}, <b>{ACTING[0]}</b>: 1.0, =1+1: 2.0", *([last] if last else [])]
        lines += ["XPK End: Sat Apr 18 00:57:24 UTC 2026", f"EXIT_CODE={code}", ""]
        path = tmp_path / name
        path.write_bytes(extra + "\n".join(lines).encode())
        return path

    return write


def acts_in_a_terminal(text: str) -> list[str]:
    """The characters of an output that a terminal would interpret, or that would reorder its text."""
    allowed = "\n\t"
    directions = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200b\u2028\u2029"
    return sorted({f"U+{ord(c):04X}" for c in text if (ord(c) < 32 and c not in allowed) or 127 <= ord(c) < 160}
                  | {f"U+{ord(c):04X}" for c in text if c in directions})  # fmt: skip


@pytest.fixture
def find_acting() -> Callable[[str], list[str]]:
    """The characters of an output that a terminal would interpret."""
    return acts_in_a_terminal


@pytest.fixture
def untouched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to work in; the folder beside it must not change."""
    beside, here = tmp_path / "beside", tmp_path / "here"
    beside.mkdir()
    here.mkdir()
    (beside / "precious").write_text("as it was\n")
    monkeypatch.chdir(here)
    before = {path.name for path in tmp_path.iterdir()}
    yield here
    assert [path.name for path in beside.iterdir()] == ["precious"]
    assert (beside / "precious").read_text() == "as it was\n"
    left = {path.name for path in tmp_path.iterdir()} - before
    assert not [name for name in left if "owned" in name]
