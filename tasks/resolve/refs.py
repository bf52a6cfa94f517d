"""Turns the name of a branch, a tag or a commit into the commit's SHA, in a clone or at a remote address."""

import os
import re
from pathlib import Path

from configs.errors import ConfigError, suggest
from configs.schema import Frozen
from tasks.resolve.git import GitError, run_git

SHA = re.compile(r"[0-9a-f]{40}")
SHORT_SHA = re.compile(r"[0-9a-f]{7,40}")
ADDRESS = re.compile(r"(?:(?:https?|ssh|git|file)://|[\w.-]+@[\w.-]+:)\S+")
SECRET = re.compile(r"https?://[^/]*@|ssh://[^/@]*:[^/@]*@")
EVERY_BRANCH = "+refs/heads/*:refs/remotes/origin/*"
LONGEST_NAME = 244  # git itself cannot keep longer ones in files
SHOWN = 80
# where a name is looked for, in this order; the first two together are ambiguous if they differ
PLACES = ("refs/heads/", "refs/tags/", "refs/remotes/", "refs/remotes/origin/")


class ResolvedRef(Frozen):
    """A name as the user wrote it, and the commit that it meant at that moment."""

    name: str
    sha: str


def pin_ref(ref: ResolvedRef) -> str:
    """`NAME:SHA`: a ref that `resolve_ref` does not look up again. A colon cannot be in a name."""
    return f"{ref.name}:{ref.sha}"


def resolve_ref(repository: str, name: str) -> ResolvedRef:
    """The commit that `name` is in `repository`: a folder with a clone, or an address, which is asked now.

    `NAME:SHA` is that commit, whatever the name means by now.

    Raises ConfigError for a name that git does not allow, that is not there, or that means two commits.
    """
    plain, _, pinned = name.rpartition(":")
    if plain and SHA.fullmatch(pinned):
        return ResolvedRef(name=check_ref_name(plain), sha=pinned)
    check_ref_name(name)
    try:
        sha = _resolve_remote(repository, name) if is_address(repository) else _resolve_local(repository, name)
    except GitError as error:
        raise ConfigError([f"{repository}: cannot be asked for '{name}': {error}"]) from error
    return ResolvedRef(name=name, sha=sha)


def is_address(repository: str) -> bool:
    """Whether the repository is at a remote address rather than in a folder."""
    return ADDRESS.fullmatch(repository) is not None


def check_repository(repository: str) -> str:
    """The repository as it is, or as an absolute folder. Raises ConfigError if it is neither address nor clone."""
    if SECRET.match(repository):  # it would be written into plans, pages and logs
        raise ConfigError(
            ["repository: leave user and password out of the address: git asks a credential helper for them"]
        )
    if is_address(repository):
        return repository
    folder = Path(repository).expanduser()
    if "::" in repository or repository.startswith("-") or not os.path.isdir(folder):
        raise ConfigError(
            [f"repository {repository!r:.{SHOWN}} is neither a folder nor an address such as https://host/name.git"]
        )
    try:
        run_git(["rev-parse", "--git-dir"], folder=folder)
    except GitError as error:
        raise ConfigError(
            [f"{folder}: is no git clone ({error}); name one as the repository, or an address"]
        ) from error
    return str(folder.absolute())


def check_ref_name(name: str) -> str:
    """`name` itself. Raises ConfigError unless it can be the name of a branch, a tag or a commit."""
    problem = None
    if not name:
        problem = "is empty"
    elif len(name) > LONGEST_NAME:
        problem = f"has {len(name)} characters"
    elif name.startswith("-"):
        problem = "begins with a dash"
    elif not name.isprintable():
        problem = "has characters that cannot be printed"
    elif name == "@" or not _git_allows(name):
        problem = "is not a name that git allows (see git check-ref-format)"
    if problem:
        raise ConfigError([f"ref {name!r:.{SHOWN}} {problem}: give a branch, a tag or a commit"])
    return name


def _git_allows(name: str) -> bool:
    try:
        run_git(["check-ref-format", "--allow-onelevel", name])
    except GitError as error:
        if "not installed" in str(error):
            raise ConfigError(["git is not installed: branches cannot be compared without it"]) from error
        return False
    return True


def _resolve_local(repository: str, name: str) -> str:
    folder = Path(repository)
    listed = run_git(["for-each-ref", "--format=%(refname) %(objectname) %(*objectname)"], folder=folder)
    refs: dict[str, str] = {}
    for line in listed.splitlines():
        ref, sha, *peeled = line.split(" ")
        refs[ref] = next((other for other in peeled if other), sha)  # an annotated tag means its commit
    found = _pick(refs, name)
    if found is None and (name == "HEAD" or SHORT_SHA.fullmatch(name)):
        found = _commit_of(folder, name)
    if found is None:
        raise _unknown(repository, name, refs)
    commit = _commit_of(folder, found)
    if commit is None:
        raise ConfigError([f"{repository}: '{name}' is no commit"])
    return commit


def _commit_of(folder: Path, name: str) -> str | None:
    try:
        return run_git(["rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"], folder=folder)
    except GitError:
        return None


def _resolve_remote(repository: str, name: str) -> str:
    refs: dict[str, str] = {}
    for line in run_git(["ls-remote", "--", repository]).splitlines():
        sha, _, ref = line.partition("\t")
        if ref.endswith("^{}"):  # the commit that an annotated tag means; it follows the tag
            ref = ref.removesuffix("^{}")
        refs[ref] = sha
    found = refs.get("HEAD") if name == "HEAD" else _pick(refs, name)
    if found is None and SHA.fullmatch(name):
        return name  # fetching it will tell
    if found is None:
        raise _unknown(repository, name, refs)
    return found


def _pick(refs: dict[str, str], name: str) -> str | None:
    if name in refs and name.startswith("refs/"):
        return refs[name]
    found = [(place + name, refs[place + name]) for place in PLACES if place + name in refs]
    named = [(ref, sha) for ref, sha in found if ref.startswith(("refs/heads/", "refs/tags/"))]
    if len({sha for _, sha in named}) > 1:
        raise ConfigError([f"'{name}' is both a branch and a tag: write {' or '.join(ref for ref, _ in named)}"])
    return found[0][1] if found else None


def _unknown(repository: str, name: str, refs: dict[str, str]) -> ConfigError:
    names = [ref.removeprefix(place) for place in PLACES for ref in refs if ref.startswith(place)]
    hint = suggest(name, names)
    about = "; a remote tells only whole hashes" if SHORT_SHA.fullmatch(name) and is_address(repository) else ""
    remedy = "" if is_address(repository) else _how_to_fetch(Path(repository))
    return ConfigError([f"{repository}: no branch, tag or commit '{name}'{hint}{about}{remedy}"])


def _how_to_fetch(folder: Path) -> str:
    if run_git(["rev-parse", "--is-shallow-repository"], folder=folder) != "true":
        return " (a clone knows what was fetched last: git fetch)"
    # a shallow clone mostly follows one branch only: without the others' names `--unshallow` would leave them out
    return f" (the clone is shallow: git fetch --unshallow origin '{EVERY_BRANCH}')"
