"""The limits of `--until-decided`."""

import pytest

from tasks.resolve.options import CompareMore, CompareOptions


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(ValueError, match="--budget limits --until-decided") as caught:
        CompareOptions(more=CompareMore(budget="soon", max_repeats=0)).read_budget()
    assert len(str(caught.value).splitlines()) == 4
    assert CompareOptions(more=CompareMore(budget="10m", max_repeats=8, until_decided=True)).read_budget() == 600.0
    assert CompareOptions().read_budget() is None
