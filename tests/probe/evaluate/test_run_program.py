"""A result is taken from the device whose copy differs most, so that devices that drift apart show."""

import numpy as np
import pytest

from maxview_probe.evaluate.run_program import find_farthest

pytestmark = pytest.mark.flows

FIRST = np.ones(3, np.float32)


@pytest.mark.parametrize(
    ("copies", "place"),
    [([FIRST], 0), ([FIRST, FIRST.copy()], 0), ([FIRST, FIRST + 1, FIRST, FIRST - 2], 3)],
)
def test_the_copy_farthest_from_the_first_is_taken(copies: list[np.ndarray], place: int) -> None:
    assert find_farthest(copies) is copies[place]


def test_integers_and_booleans_have_a_distance() -> None:
    assert find_farthest([np.array([0, 250], np.uint8), np.array([255, 250], np.uint8)])[0] == 255
    assert find_farthest([np.array([False]), np.array([True])])[0]
