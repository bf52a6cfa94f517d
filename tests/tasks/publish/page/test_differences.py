"""Other differences on the page: changed characters are marked, and a line in one log only is not a difference of each
line.
"""

import pytest

from tasks.publish.page.differences import Difference, Setting


@pytest.mark.parametrize(
    ("values", "parts"),
    [
        (("jax 0.9.2", "jax 0.8.1"), (("jax 0.", "9.2", ""), ("jax 0.", "8.1", ""))),
        (("run-a-17", "run-bc-17"), (("run-", "a", "-17"), ("run-", "bc", "-17"))),
        (("aa", "aaa"), (("aa", "", ""), ("aa", "a", ""))),  # the common beginning is not counted as a common end again
        (("False", "17"), (("False", "", ""), ("17", "", ""))),  # no common part: nothing is marked
        (("same", "same"), (("same", "", ""), ("same", "", ""))),
        (("alone", None), (("alone", "", ""), ("", "", ""))),
    ],
)
def test_changed_parts_are_marked(values: tuple[str | None, str | None], parts: object) -> None:
    setting = Setting(name="x", values=values)
    assert setting.parts == parts
    assert tuple("".join(part) for part in setting.parts) == tuple(value or "" for value in values)


def test_lines_of_one_side_only() -> None:
    left, both, right = (Setting(name="x", values=values) for values in (("1", None), ("1", "2"), (None, "2")))
    assert Difference(id="x", title="X", rows=(left, left)).alone == 0
    assert Difference(id="x", title="X", rows=(right,)).alone == 1
    assert Difference(id="x", title="X", rows=(left, right)).alone is None
    assert Difference(id="x", title="X", rows=(left, both)).alone is None
