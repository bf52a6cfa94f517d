"""Durations as users type them."""

import pytest

from configs.read import read_duration


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90.0), ("10m", 600.0), ("2h", 7200.0), (" 1.5h ", 5400.0)])
def test_lengths(text: str, seconds: float) -> None:
    assert read_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "m", "-5m", "10 minutes", "0s", "1e9s", "nan"])
def test_an_invalid_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="type for example 90s, 10m or 2h"):
        read_duration(text)
