"""Says how a process ended. Needs the standard library only."""

import signal


def describe_end(code: int) -> str:
    """Return the end of a process in words: by its exit code, negative if a signal killed it."""
    if code >= 0:
        return f"ended with exit code {code}"
    cause = ", as when memory runs out" if code == -signal.SIGKILL else ""
    return f"was killed by signal {-code}{cause}"
