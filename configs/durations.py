"""Parses durations such as 90s, 10m, 2h, and limits the repeats of an arm."""

import re

UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0}
MOST_REPEATS = 100  # runs per arm, at most
ENOUGH_REPEATS = 30  # default limit of runs per arm for --until-decided


def read_duration(text: str) -> float:
    """Return a duration in seconds. Raises ValueError with examples, also for 0."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text.strip())
    seconds = float(match[1]) * UNITS_S[match[2]] if match else 0.0
    if not seconds:
        raise ValueError(f"'{text}' is not a duration: type for example 90s, 10m or 2h")
    return seconds
