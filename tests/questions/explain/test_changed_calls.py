"""A helper that both arms call is not the cause: the changed line that calls it is named."""

from pathlib import Path

import pytest

from questions.explain.changed_calls import find_changed_call

HELPER = "def norm(x):\n    return x / x.std()\n"
LAYER = "def run(x):\n    x = norm(x)\n    return attend(norm(x))\n"


@pytest.fixture
def arms(tmp_path: Path) -> tuple[Path, Path]:
    for arm in ("baseline", "candidate"):
        (tmp_path / arm).mkdir()
        (tmp_path / arm / "helper.py").write_text(HELPER)
        changed = LAYER.replace("attend(norm(x))", "attend(x)") if arm == "candidate" else LAYER
        (tmp_path / arm / "layer.py").write_text(
            f"# a comment moves the lines\n{changed}" if changed != LAYER else LAYER
        )
    return tmp_path / "baseline", tmp_path / "candidate"


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ((2, 3), "layer.py:3 run"),
        ((2, 2), ""),  # the other arm has this call, at another line
    ],
)
def test_the_innermost_changed_call_is_named(lines: tuple[int, int], found: str, arms: tuple[Path, Path]) -> None:
    ours, theirs = arms
    chain = (
        (str(ours / "helper.py"), lines[0], "norm", "helper.py"),
        (str(ours / "layer.py"), lines[1], "run", "layer.py"),
        ("/gone/main.py", 1, "<module>", "main.py"),
    )
    others = {file: str(theirs / file) for file in ("helper.py", "layer.py")}
    assert find_changed_call(chain, others) == found


def test_an_operation_on_a_changed_line_needs_no_call(arms: tuple[Path, Path]) -> None:
    ours, theirs = arms
    chain = ((str(ours / "layer.py"), 3, "run", "layer.py"), (str(ours / "layer.py"), 3, "run", "layer.py"))
    assert find_changed_call(chain, {"layer.py": str(theirs / "layer.py")}) == ""
