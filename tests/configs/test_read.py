"""Files that are not YAML mappings: one message each, with file and line."""

import errno
import os
from pathlib import Path

import pytest

from configs.errors import ConfigError, suggest
from configs.read import CONFIG_ROOT, display_path, first_comment, origin_of, read_yaml, to_python


def problem_of(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        read_yaml(path)
    (problem,) = caught.value.problems
    return problem


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        (b"steps: 3\ndtype: float32\nsteps: 4\n", 3, 'found duplicate key "steps"'),
        (b"steps: 3\n  dtype: x\n", 2, "mapping values are not allowed here"),
        (b"steps: [1\n", 2, "not valid YAML"),
        (b"a: 1\n---\nb: 2\n", 2, "not valid YAML"),
        (b"a: *nowhere\n", 1, "found undefined alias"),
        (b"a: 1\nb: \xff\n", 2, "is not UTF-8 text"),
        ("# \xe4\nsteps: 3\n".encode("latin-1"), 1, "is not UTF-8 text"),
        (b"- 1\n- 2\n", 1, "expected `key: value` lines, got [1, 2]"),
        (b"only words\n", 1, "expected `key: value` lines, got 'only words'"),
    ],
)
def test_a_file_that_is_not_a_mapping_is_refused_with_its_line(
    text: bytes, line: int, expected: str, tmp_path: Path
) -> None:
    path = tmp_path / "bad.yml"
    path.write_bytes(text)
    problem = problem_of(path)
    assert problem.startswith(f"{path}:{line}: ")
    assert expected in problem


def test_control_characters_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.yml"
    path.write_bytes(b"steps: \x01\n")
    assert problem_of(path).startswith(f"{path}: not valid YAML")


def test_an_unreadable_file_is_refused_with_the_reason(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "none.yml", os.strerror(errno.ENOENT)), (tmp_path, os.strerror(errno.EISDIR))):
        assert problem_of(path).startswith(f"{path}: ")
        assert problem_of(path).endswith(f": {reason}")


def test_an_empty_file_is_an_empty_mapping(tmp_path: Path) -> None:
    path = tmp_path / "empty.yml"
    path.write_bytes(b"\xef\xbb\xbf# only a comment, after a byte order mark\n")
    assert dict(read_yaml(path)) == {}
    assert first_comment(path) == "only a comment, after a byte order mark"


def test_origins_reach_into_lists_and_mappings(tmp_path: Path) -> None:
    path = tmp_path / "nested.yml"
    path.write_text("arms:\n  - name: a\n    set:\n      steps: 3\n  - {name: b}\nlast: 1\n")
    data = read_yaml(path)
    expected = {
        ("arms",): 1,
        ("arms", 0, "name"): 2,
        ("arms", 0, "set", "steps"): 4,
        ("arms", 1, "name"): 5,
        ("arms", 1, "set"): 5,  # missing: the deepest existing origin
        ("arms", 7): 1,
        ("last", "further"): 6,
    }
    for keys, line in expected.items():
        assert origin_of(data, path, keys) == f"{path}:{line}", keys
    assert origin_of(data, path, ("nowhere",)) == str(path)


def test_keys_from_a_merge_have_at_least_a_file(tmp_path: Path) -> None:
    path = tmp_path / "merge.yml"
    path.write_text("common: &c {steps: 3}\nmore:\n  <<: *c\n")
    data = read_yaml(path)
    assert to_python(data)["more"] == {"steps": 3}
    assert origin_of(data, path, ("more", "steps")).startswith(str(path))


def test_plain_values_have_plain_types(tmp_path: Path) -> None:
    path = tmp_path / "types.yml"
    path.write_text("a: 0x10\nb: 1.50\nc: 'x'\nd: &t true\ne: [1, {f: 2}]\ng: null\nh: 1_000\n")
    values = to_python(read_yaml(path))
    assert values == {"a": 16, "b": 1.5, "c": "x", "d": True, "e": [1, {"f": 2}], "g": None, "h": 1000}
    assert [type(values[key]) for key in "abcdeh"] == [int, float, str, bool, list, int]


def test_our_files_have_the_same_path_wherever_they_are_installed(tmp_path: Path) -> None:
    assert display_path(CONFIG_ROOT / "cases" / "01_base.yml") == "configs/cases/01_base.yml"
    assert display_path(tmp_path / "x.yml") == str(tmp_path / "x.yml")


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("quantisation", "quantization"),
        ("dropout", "03_dropout"),
        ("DROP", "03_dropout"),  # a part of the name, in any case
        ("03", "03_dropout"),
        ("xy", None),
        ("", None),
        ("zzzz", None),
    ],
)
def test_suggestions(word: str, expected: str | None) -> None:
    known = ("quantization", "03_dropout", "xyz_something_long")
    assert suggest(word, known) == (f" (did you mean '{expected}'?)" if expected else "")


def test_an_error_contains_each_problem_once() -> None:
    assert str(ConfigError(["a", "b", "a"])) == "a\nb"
