"""What else differs: changed characters are marked, and what one side alone tells is no difference of each line."""

import pytest

from tasks.publish.page.differences import Difference, Setting


@pytest.mark.parametrize(
    ("values", "parts"),
    [
        (("jax 0.9.2", "jax 0.8.1"), (("jax 0.", "9.2", ""), ("jax 0.", "8.1", ""))),
        (("run-a-17", "run-bc-17"), (("run-", "a", "-17"), ("run-", "bc", "-17"))),
        (("aa", "aaa"), (("aa", "", ""), ("aa", "a", ""))),  # what both begin with is not counted as their end again
        (("False", "17"), (("False", "", ""), ("17", "", ""))),  # nothing in common: nothing is marked
        (("same", "same"), (("same", "", ""), ("same", "", ""))),
        (("alone", None), (("alone", "", ""), ("", "", ""))),
    ],
)
def test_what_changed_is_told_apart(values: tuple[str | None, str | None], parts: object) -> None:
    setting = Setting(name="x", values=values)
    assert setting.parts == parts
    assert tuple("".join(part) for part in setting.parts) == tuple(value or "" for value in values)


def test_one_side_alone() -> None:
    left, both, right = (Setting(name="x", values=values) for values in (("1", None), ("1", "2"), (None, "2")))
    assert Difference(id="x", title="X", rows=(left, left)).alone == 0
    assert Difference(id="x", title="X", rows=(right,)).alone == 1
    assert Difference(id="x", title="X", rows=(left, right)).alone is None
    assert Difference(id="x", title="X", rows=(left, both)).alone is None
