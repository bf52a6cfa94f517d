"""Resolves the name of a branch, a tag or a commit to the commit's SHA, in a clone or at a remote address."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from configs.errors import ConfigError, suggest
from configs.frozen import Frozen
from tasks.resolve.git import GitError, MissingGitError, run_git

SHA = re.compile(r"[0-9a-f]{40}")
SHORT_SHA = re.compile(r"[0-9a-f]{7,40}")
ADDRESS = re.compile(r"(?:(?:https?|ssh|git|file)://|[\w.-]+@[\w.-]+:)\S+")
BASE = re.compile(r"(?:[^~^@]|@(?!\{))*")  # main of main~3, main^2 and main@{u}: no branch's name contains ~, ^ or @{
WORKING_TREE = "."  # in place of a ref: the files of the clone as they are
OWN = ("", "@", "HEAD")  # bases of names that a clone defines by itself; its remote's HEAD is another commit
SECRET = re.compile(r"https?://[^/]*@|ssh://[^/@]*:[^/@]*@")  # HTTP with a user, or SSH with a password
EVERY_BRANCH = "+refs/heads/*:refs/remotes/origin/*"
MAX_NAME_LENGTH = 244  # characters; git cannot store longer names as files
SHOWN = 80  # characters of a bad value in messages
# Prefixes of full ref names; a user may leave them out.
PLACES = ("refs/heads/", "refs/tags/", "refs/remotes/", "refs/remotes/origin/")


class ResolvedRef(Frozen):
    """The name of a ref, and the SHA of its commit when the ref was resolved."""

    name: str
    sha: str
    found_as: str = ""  # origin/NAME, if git knows no NAME; empty: the name is git's
    head: str = ""  # for a working tree: the SHA of its HEAD; empty: this is a commit
    changed: tuple[str, ...] = ()  # for a working tree: the files with uncommitted changes


def pin_ref(ref: ResolvedRef) -> str:
    """Return `NAME:SHA`, which `resolve_ref` splits again without a look-up. A ref name cannot contain a colon."""
    return f"{ref.name}:{ref.sha}"


def resolve_ref(repository: str, name: str) -> ResolvedRef:
    """Return `name` with the SHA of its commit in `repository`, which is a clone's folder or a remote address.

    For `NAME:SHA`, returns NAME and SHA without a look-up, even if the branch NAME has moved on. In a clone, a name
    means the commit that `git rev-parse` finds for it: HEAD is the clone's own, never the remote's. Only a name that
    git does not know is looked for as a branch of the remote `origin`. At an address, a name is HEAD, a branch, a tag
    or a full hash.

    Raises ConfigError if git does not allow the name or fails, or if the name is unknown, ambiguous or no commit.
    """
    plain, _, pinned = name.rpartition(":")
    if plain and SHA.fullmatch(pinned):
        return ResolvedRef(name=check_ref_name(plain), sha=pinned)
    check_ref_name(name)
    try:
        return _resolve_remote(repository, name) if is_address(repository) else _resolve_local(repository, name)
    except MissingGitError as error:
        raise ConfigError(["git is not installed: branches cannot be compared without it"]) from error
    except GitError as error:
        raise ConfigError([f"{repository}: '{name}' cannot be looked up: {error}"]) from error


def is_address(repository: str) -> bool:
    """Return whether the repository is a remote address rather than a folder."""
    return ADDRESS.fullmatch(repository) is not None


def check_repository(repository: str) -> str:
    """Return the address unchanged, or the clone's absolute folder, also for a folder in the clone.

    Raises ConfigError if the text is neither, and for an address with a secret (see SECRET).
    """
    if SECRET.match(repository):  # the secret would appear in plans, pages and logs
        raise ConfigError(
            ["repository: leave user and password out of the address: git gets them from a credential helper"]
        )
    if is_address(repository):
        return repository
    folder = Path(repository).expanduser()
    if "::" in repository or repository.startswith("-") or not os.path.isdir(folder):
        raise ConfigError(
            [f"repository {repository!r:.{SHOWN}} is neither a folder nor an address such as https://host/name.git"]
        )
    try:
        return _find_root(folder)
    except MissingGitError as error:
        raise ConfigError([f"{error}: install it; refs of {folder} are read with it"]) from error
    except GitError as error:
        raise ConfigError(
            [f"{folder}: is no git clone ({error}); name one as the repository, or an address"]
        ) from error


def _find_root(folder: Path) -> str:
    """Return the root of the clone's working tree; of a bare clone, its folder. Raises GitError."""
    try:
        return run_git(["rev-parse", "--show-toplevel"], folder=folder)
    except MissingGitError:
        raise
    except GitError:
        return run_git(["rev-parse", "--absolute-git-dir"], folder=folder)


def check_ref_name(name: str) -> str:
    """Return `name`. Raises ConfigError for a text that names no single commit whatever the clone holds."""
    problem = None
    if not name:
        problem = "is empty"
    elif len(name) > MAX_NAME_LENGTH:
        problem = f"has {len(name)} characters"
    elif name == WORKING_TREE:
        problem = "is the working tree, and only compare and preflight take it"
    elif name.startswith("-"):
        problem = "begins with a dash"
    elif not name.isprintable():
        problem = "has characters that cannot be printed"
    elif ".." in name or name.startswith("^"):
        problem = "names a range of commits"
    elif ":" in name:
        problem = "names a file, or searches messages"
    if problem:
        raise ConfigError([f"ref {name!r:.{SHOWN}} {problem}: give a branch, a tag, a commit or HEAD~2"])
    return name


def _resolve_local(repository: str, name: str) -> ResolvedRef:
    folder, base = Path(repository), _base_of(name)
    branch, tag = (_commit_of(folder, f"{place}{base}") for place in ("refs/heads/", "refs/tags/"))
    if branch and tag and branch != tag:
        raise _explain_ambiguous(base)
    if sha := _commit_of(folder, name):
        return ResolvedRef(name=name, sha=sha)
    if base not in OWN and (sha := _commit_of(folder, f"refs/remotes/origin/{name}")):
        return ResolvedRef(name=name, sha=sha, found_as=f"origin/{name}")
    if base != name and (name.startswith("@{") or _commit_of(folder, base)):
        raise ConfigError([f"{repository}: {_explain_no_ancestor(folder, name, base)}"])
    if _is_object(folder, name):
        raise ConfigError([f"{repository}: '{name}' is no commit"])
    listed = run_git(["for-each-ref", "--format=%(refname)"], folder=folder)
    raise _explain_unknown(repository, name, listed.splitlines())


def _base_of(name: str) -> str:
    match = BASE.match(name)
    assert match is not None  # it matches the empty text
    return match[0]


def _commit_of(folder: Path, name: str) -> str | None:
    """Return the SHA of the commit that git finds for a name; None if it finds none."""
    try:
        found = run_git(["rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"], folder=folder)
    except MissingGitError:
        raise
    except GitError:
        return None
    return found if SHA.fullmatch(found) else None


def _is_object(folder: Path, name: str) -> bool:
    try:
        run_git(["rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{object}}"], folder=folder)
    except GitError:
        return False
    return True


def _explain_no_ancestor(folder: Path, name: str, base: str) -> str:
    """Return the sentence about a name whose base exists, with git's own reason if it gives one."""
    try:
        run_git(["rev-parse", "--verify", "--end-of-options", name], folder=folder)
    except GitError as error:
        reason = str(error).removeprefix("fatal: ")
        if "@{" in name and "single revision" not in reason:
            return f"'{name}': {reason}"
    remedy = _how_to_fetch(folder) if _is_shallow(folder) else ""
    return f"'{name}': {base or 'HEAD'} has no such ancestor{remedy}"


def _resolve_remote(repository: str, name: str) -> ResolvedRef:
    if _base_of(name) != name or name == "@":
        raise ConfigError([f"{repository}: '{name}' needs a history, which an address has not: give the commit's hash"])
    refs: dict[str, str] = {}
    for line in run_git(["ls-remote", "--", repository]).splitlines():
        sha, _, ref = line.partition("\t")
        refs[ref.removesuffix("^{}")] = sha  # git lists the commit of an annotated tag as TAG^{}, after TAG
    branch, tag = (refs.get(f"{place}{name}") for place in ("refs/heads/", "refs/tags/"))
    if branch and tag and branch != tag:
        raise _explain_ambiguous(name)
    found = refs.get(name) if name == "HEAD" or name.startswith("refs/") else tag or branch
    if found is None and SHA.fullmatch(name):
        found = name  # not checked: the later fetch fails if there is no such commit
    if found is None:
        raise _explain_unknown(repository, name, list(refs))
    return ResolvedRef(name=name, sha=found)


def _explain_ambiguous(name: str) -> ConfigError:
    return ConfigError([f"'{name}' is both a branch and a tag: write refs/heads/{name} or refs/tags/{name}"])


def _explain_unknown(repository: str, name: str, refs: Sequence[str]) -> ConfigError:
    names = [ref.removeprefix(place) for place in PLACES for ref in refs if ref.startswith(place)]
    hint = suggest(name, names)
    about = "; a remote accepts only full hashes" if SHORT_SHA.fullmatch(name) and is_address(repository) else ""
    remedy = "" if is_address(repository) else _how_to_fetch(Path(repository))
    return ConfigError([f"{repository}: no branch, tag or commit '{name}'{hint}{about}{remedy}"])


def _is_shallow(folder: Path) -> bool:
    return run_git(["rev-parse", "--is-shallow-repository"], folder=folder) == "true"


def _how_to_fetch(folder: Path) -> str:
    if not _is_shallow(folder):
        return " (the clone may be stale: git fetch)"
    # A shallow clone usually tracks one branch: without this refspec `--unshallow` would fetch only that branch.
    return f" (the clone is shallow: git fetch --unshallow origin '{EVERY_BRANCH}')"
