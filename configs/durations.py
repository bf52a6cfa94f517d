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


def read_budget(budget: str | None, max_repeats: int | None, *, until_decided: bool) -> float | None:
    """Return the limit of --until-decided in seconds; None without one. Raises ValueError with all problems."""
    problems, seconds = [], None
    if not until_decided:
        problems += [f"{option} limits --until-decided: give both" for option, value in
                     (("--budget", budget), ("--max-repeats", max_repeats)) if value is not None]  # fmt: skip
    if max_repeats is not None and not 1 <= max_repeats <= MOST_REPEATS:
        problems.append(f"--max-repeats must be 1 to {MOST_REPEATS}, got {max_repeats}")
    if budget is not None:
        try:
            seconds = read_duration(budget)
        except ValueError as error:
            problems.append(f"--budget: {error}")
    if problems:
        raise ValueError("\n".join(problems))
    return seconds
