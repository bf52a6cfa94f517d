"""Runs git with argument lists only, without hooks, prompts, or the variables of a hook that we might run inside."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

TIMEOUT_S = 600.0  # of one command; the longest fetches one commit of a big repository
# never `ext::`, which would run a command out of an address
PROTOCOLS = "file:git:http:https:ssh"


class GitError(RuntimeError):
    """A git command failed; the message is git's own last words."""


def run_git(
    words: Sequence[str], *, folder: Path | None = None, timeout_s: float = TIMEOUT_S, whole: bool = False
) -> str:
    """The output of `git WORDS…`, run in `folder`, without its last line break unless `whole`. Raises GitError."""
    where = ["-C", str(folder)] if folder is not None else []
    argv = ["git", *where, "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", *words]
    try:
        done = subprocess.run(
            argv, capture_output=True, check=False, env=git_environment(), stdin=subprocess.DEVNULL, timeout=timeout_s
        )
    except FileNotFoundError as error:
        raise GitError("git is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise GitError(f"git {words[0]} took longer than {timeout_s:g} s") from error
    except ValueError as error:  # a NUL byte
        raise GitError(f"git {words[0]}: {error}") from error
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise GitError(lines[-1] if lines else f"git {words[0]} ended with exit code {done.returncode}")
    text = done.stdout.decode("utf-8", "surrogateescape")
    return text if whole else text.removesuffix("\n")


def git_environment() -> dict[str, str]:
    """The caller's environment, less what names another repository (inside a git hook), never asking for a password."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_") or key in SSH_SETTINGS}
    return kept | {"GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": PROTOCOLS, "LC_ALL": "C"}


SSH_SETTINGS = ("GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM")
