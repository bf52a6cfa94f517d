"""A name cannot lead outside the store."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tasks.store.atomic import StoreError
from tasks.store.names import check_name, safe_name
from tasks.store.store import Store

BAD = [
    "",
    ".",
    "..",
    "../x",
    "a/b",
    "/etc",
    "a\\b",
    "a b",
    "-x",
    ".hidden",
    "a\n",
    "a\x00b",
    "ä",
    "a" * 101,
    "~",
    "$HOME",
    "a;b",
]


@pytest.mark.parametrize("name", BAD)
def test_an_invalid_folder_name_is_refused_everywhere(tmp_path, name):
    store = Store(tmp_path)
    for use in (
        store.run,
        lambda bad: store.comparison(bad, "01_base", "id"),
        lambda bad: store.comparison("linen-vs-nnx", bad, "id"),
        lambda bad: store.comparison("linen-vs-nnx", "01_base", bad),
        lambda bad: store.comparison("linen-vs-nnx", "01_base", "id").file(bad),
    ):
        with pytest.raises(StoreError):
            use(name)


@pytest.mark.parametrize("name", ["01_base", "linen-vs-nnx", "a", "9", "main-20261121.1+x", "A" * 100])
def test_plain_names_are_unchanged(name):
    assert check_name(name, "name") == name
    assert safe_name(name) == name


@given(st.text(max_size=300))
@example("../../etc/passwd")
@example("\ud800")
@example("a" * 101)
def test_any_text_becomes_a_valid_name(text):
    name = safe_name(text)
    assert check_name(name, "name") == name
    assert safe_name(name) == name


@given(st.lists(st.text(alphabet="ab/ .-ä", max_size=6), unique=True, max_size=30))
def test_different_texts_become_different_names(texts):
    assert len({safe_name(text) for text in texts}) == len(texts)


def test_a_branch_keeps_its_words():
    assert safe_name("feat/nnx-decoder").startswith("feat-nnx-decoder-")
