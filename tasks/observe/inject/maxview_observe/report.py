"""Prints the recorder's actions into the trainer's log."""

import sys


def say(text: str) -> None:
    """One line on stderr."""
    sys.stderr.write(f"[maxview] {text}\n")
    sys.stderr.flush()


def describe_error(error: Exception) -> str:
    """An error in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}"
