"""Two checkouts → the statements that differ, without comments, docstrings and layout."""

from pathlib import Path

import pytest

from tasks.records.change import ChangedStatement
from tasks.resolve.changed_code import find_changed_code, find_readers

BEFORE = '''"""A module."""
import math
import os

EPSILON = 1e-5


class Config:
    rate: float = 0.1


def norm(x, epsilon: float = EPSILON):
    """Return x."""
    # a comment
    if x > 5:
        x = x / 2
    return math.sqrt(
        x * x
        + epsilon
    )


def never():
    return 1
'''


def changed(tmp_path: Path, *edits: tuple[str, str], file: str = "model/layers.py") -> tuple[ChangedStatement, ...]:
    """Return the statements that edits of BEFORE change."""
    after = BEFORE
    for old, new in edits:
        assert after.count(old) == 1
        after = after.replace(old, new)
    for side, text in (("a", BEFORE), ("b", after)):
        (tmp_path / side / file).parent.mkdir(parents=True)
        (tmp_path / side / file).write_text(text)
    return find_changed_code(tmp_path / "a", tmp_path / "b", None, lambda path: True).statements


@pytest.mark.parametrize(
    "edit",
    [
        ("# a comment", "# another comment"),
        ('"""Return x."""', '"""Return the norm of x."""'),
        ("x * x\n        + epsilon\n", "x * x + epsilon"),
        ("epsilon: float", "epsilon: int"),
    ],
)
def test_comments_docstrings_layout_and_types_are_no_change(tmp_path: Path, edit: tuple[str, str]) -> None:
    assert changed(tmp_path, edit) == ()


@pytest.mark.parametrize(
    ("edit", "kind", "lines", "function"),
    [
        (("x = x / 2", "x = x / 3"), "code", (16, 16), "norm"),
        (("if x > 5:", "if x > 6:"), "code", (15, 15), "norm"),
        (("+ epsilon", "+ 2 * epsilon"), "code", (17, 20), "norm"),
        (("float = EPSILON", "float = 0.0"), "function", (12, 12), "norm"),
        (("EPSILON = 1e-5", "EPSILON = 1e-6"), "definition", (5, 5), ""),
        (("rate: float = 0.1", "rate: float = 0.2"), "definition", (9, 9), "Config"),
        (("import os", "import sys"), "import", (3, 3), ""),
    ],
)
def test_a_changed_statement_has_its_lines_kind_and_function(
    tmp_path: Path, edit: tuple[str, str], kind: str, lines: tuple[int, int], function: str
) -> None:
    (found,) = changed(tmp_path, edit)
    assert (found.side, found.kind, (found.first, found.last), found.function) == ("candidate", kind, lines, function)


def test_a_statement_that_leaves_its_condition_is_a_change(tmp_path: Path) -> None:
    (found,) = changed(tmp_path, ("        x = x / 2\n", "        pass\n    x = x / 2\n"))
    assert (found.first, found.guard) == (17, 0)


def test_a_removed_statement_is_of_the_baseline(tmp_path: Path) -> None:
    found = changed(tmp_path, ("    if x > 5:\n        x = x / 2\n", ""))
    assert [(one.side, one.first) for one in found] == [("baseline", 15), ("baseline", 16)]


@pytest.mark.parametrize("file", ["tests/test_layers.py", "docs/build.py", "model/layers_test.py"])
def test_tests_and_docs_do_not_count(tmp_path: Path, file: str) -> None:
    assert changed(tmp_path, ("x = x / 2", "x = 1"), file=file) == ()


def test_a_file_that_is_no_python_is_named(tmp_path: Path) -> None:
    for side, text in (("a", "x = 1\n"), ("b", "x = = 1\n")):
        (tmp_path / side).mkdir()
        (tmp_path / side / "broken.py").write_text(text)
        (tmp_path / side / "data.json").write_text(text)
    found = find_changed_code(tmp_path / "a", tmp_path / "b", None, lambda path: True)
    assert found.others == ("broken.py", "data.json")
    assert found.unread.startswith("broken.py cannot be parsed")


def test_a_constant_is_read_where_its_name_or_one_made_from_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("LIMIT = 3\nHALF = LIMIT / 2\nOTHER = 1\n")
    (tmp_path / "b.py").write_text("import a\n\ndef f(x):\n    if x > a.HALF:\n        return a.OTHER\n    return x\n")
    readers = find_readers(tmp_path, ["a.py", "b.py"], frozenset({"LIMIT"}))
    assert readers["b.py"] == {4}
