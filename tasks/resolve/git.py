"""Runs git without a shell, hooks, prompts, or the GIT_* variables of an enclosing hook; lists commits."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tasks.records.plan import Commit

TIMEOUT_S = 600.0  # long enough to fetch one commit of a big repository
# Excludes `ext::` addresses, which run a command.
PROTOCOLS = "file:git:http:https:ssh"
# git gets only these GIT_* variables of the caller; they configure how to log in
SSH_SETTINGS = ("GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM")
MAX_COMMITS = 200  # limit of listed commits
_COMMIT = "%H%x00%cI%x00%an%x00%s%x01"  # format of a listed commit: SHA, time, author, subject


class GitError(RuntimeError):
    """A git command failed; the message is git's last line on stderr, or the reason why git did not finish."""


class MissingGitError(GitError):
    """git is not on PATH."""


def run_git(
    words: Sequence[str],
    *,
    folder: Path | None = None,
    whole: bool = False,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return the output of `git WORDS…`, run in `folder`; strips the last line break unless `whole`.

    variables: further environment variables, such as GIT_INDEX_FILE. Raises GitError.
    """
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_") or key in SSH_SETTINGS}
    environment = kept | {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_ALLOW_PROTOCOL": PROTOCOLS,
        "LC_ALL": "C",
        **variables,
    }
    where = ["-C", str(folder)] if folder is not None else []
    argv = ["git", *where, "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", *words]
    try:
        done = subprocess.run(
            argv, capture_output=True, check=False, env=environment, stdin=subprocess.DEVNULL, timeout=TIMEOUT_S
        )
    except FileNotFoundError as error:
        raise MissingGitError("git is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise GitError(f"git {words[0]} took longer than {TIMEOUT_S:g} s") from error
    except ValueError as error:  # an argument contains a NUL byte
        raise GitError(f"git {words[0]}: {error}") from error
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise GitError(lines[-1] if lines else f"git {words[0]} ended with exit code {done.returncode}")
    text = done.stdout.decode("utf-8", "surrogateescape")
    return text if whole else text.removesuffix("\n")


def list_commits(folder: Path, without: str, sha: str) -> "tuple[Commit, ...]":
    """Return `sha` and its ancestors, without `without` and its ancestors: newest first, at most MAX_COMMITS.

    Returns () if git fails, e.g. because it is missing, or because the folder is no clone or lacks one of the commits.
    """
    from tasks.records.plan import Commit

    try:
        printed = run_git(
            [
                "log",
                f"--format={_COMMIT}",
                f"--max-count={MAX_COMMITS}",
                "--end-of-options",
                f"{without}..{sha}",
                "--",
            ],
            folder=folder,
        )
    except GitError:
        return ()
    lines = [line.strip("\n").split("\0") for line in printed.split("\x01")]
    return tuple(
        Commit(sha=name, time=time, author=author, subject=subject)
        for name, time, author, subject in (line for line in lines if len(line) == 4)
    )
