"""Parses durations such as 90s, 10m, 2h."""

import re

UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0}
MOST_REPEATS = 100  # of one arm
ENOUGH_REPEATS = 30  # of one arm, if neither a budget nor a number is given


def read_duration(text: str) -> float:
    """Return the seconds. Raises ValueError with examples."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text.strip())
    seconds = float(match[1]) * UNITS_S[match[2]] if match else 0.0
    if not seconds:
        raise ValueError(f"'{text}' is not a duration: type for example 90s, 10m or 2h")
    return seconds
