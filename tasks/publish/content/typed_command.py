"""Writes a command of maxview as it works where the user typed the present one."""

import os

UNDER_UV = "UV_RUN_RECURSION_DEPTH"  # `uv run` sets it for the command that it runs


def as_typed(command: str) -> str:
    """Return the command, behind `uv run` if this process was started that way: then PATH may lack `maxview`."""
    return f"uv run {command}" if UNDER_UV in os.environ and command.startswith("maxview ") else command
