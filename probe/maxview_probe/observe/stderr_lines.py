"""Prints the recorder's messages to stderr, and so into the trainer's log."""

import sys


def print_on_stderr(text: str) -> None:
    """Print one line on stderr."""
    sys.stderr.write(f"[maxview] {text}\n")
    sys.stderr.flush()


def describe_error(error: Exception) -> str:
    """Return an error in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}"
