"""Resolves the name of a branch, a tag or a commit to the commit's SHA, in a clone or at a remote address."""

import os
import re
from pathlib import Path

from configs.errors import ConfigError, suggest
from configs.schema import Frozen
from tasks.resolve.git import GitError, MissingGitError, run_git

SHA = re.compile(r"[0-9a-f]{40}")
SHORT_SHA = re.compile(r"[0-9a-f]{7,40}")
ADDRESS = re.compile(r"(?:(?:https?|ssh|git|file)://|[\w.-]+@[\w.-]+:)\S+")
ANCESTOR = re.compile(r"(.+?)((?:[~^]\d*)+)")  # HEAD~3, main^2: a branch's name cannot contain ~ or ^
SECRET = re.compile(r"https?://[^/]*@|ssh://[^/@]*:[^/@]*@")  # HTTP with a user, or SSH with a password
EVERY_BRANCH = "+refs/heads/*:refs/remotes/origin/*"
MAX_NAME_LENGTH = 244  # characters; git cannot store longer names as files
SHOWN = 80  # characters of a bad value in messages
# Prefixes of full ref names, in order of precedence. A branch and a tag of one name are an error if the commits differ.
PLACES = ("refs/heads/", "refs/tags/", "refs/remotes/", "refs/remotes/origin/")


class ResolvedRef(Frozen):
    """The name of a ref, and the SHA of its commit when the ref was resolved."""

    name: str
    sha: str


def pin_ref(ref: ResolvedRef) -> str:
    """Return `NAME:SHA`, which `resolve_ref` splits again without a look-up. A ref name cannot contain a colon."""
    return f"{ref.name}:{ref.sha}"


def resolve_ref(repository: str, name: str) -> ResolvedRef:
    """Return `name` with the SHA of its commit in `repository`, which is a clone's folder or a remote address.

    For `NAME:SHA`, returns NAME and SHA without a look-up, even if the branch NAME has moved on. `NAME~3` and `NAME^2`
    are ancestors of NAME's commit, and can only be resolved in a clone.

    Raises ConfigError if git does not allow the name or fails, or if the name is unknown, ambiguous or no commit.
    """
    plain, _, pinned = name.rpartition(":")
    if plain and SHA.fullmatch(pinned):
        return ResolvedRef(name=check_ref_name(plain), sha=pinned)
    check_ref_name(name)
    try:
        sha = _resolve_remote(repository, name) if is_address(repository) else _resolve_local(repository, name)
    except GitError as error:
        raise ConfigError([f"{repository}: '{name}' cannot be looked up: {error}"]) from error
    return ResolvedRef(name=name, sha=sha)


def is_address(repository: str) -> bool:
    """Return whether the repository is a remote address rather than a folder."""
    return ADDRESS.fullmatch(repository) is not None


def check_repository(repository: str) -> str:
    """Return the address unchanged, or the clone's absolute folder.

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
        run_git(["rev-parse", "--git-dir"], folder=folder)
    except MissingGitError as error:
        raise ConfigError([f"{error}: install it; refs of {folder} are read with it"]) from error
    except GitError as error:
        raise ConfigError(
            [f"{folder}: is no git clone ({error}); name one as the repository, or an address"]
        ) from error
    return str(folder.absolute())


def check_ref_name(name: str) -> str:
    """Return `name`. Raises ConfigError without git, or if no branch, tag, commit or ancestor can have this name."""
    problem = None
    ancestor = ANCESTOR.fullmatch(name)
    if not name:
        problem = "is empty"
    elif len(name) > MAX_NAME_LENGTH:
        problem = f"has {len(name)} characters"
    elif name.startswith("-"):
        problem = "begins with a dash"
    elif not name.isprintable():
        problem = "has characters that cannot be printed"
    elif name == "@" or not _git_allows(ancestor[1] if ancestor else name):
        problem = "is not a name that git allows (see git check-ref-format)"
    if problem:
        raise ConfigError([f"ref {name!r:.{SHOWN}} {problem}: give a branch, a tag, a commit or HEAD~2"])
    return name


def _git_allows(name: str) -> bool:
    try:
        run_git(["check-ref-format", "--allow-onelevel", name])
    except MissingGitError as error:
        raise ConfigError(["git is not installed: branches cannot be compared without it"]) from error
    except GitError:
        return False
    return True


def _resolve_local(repository: str, name: str) -> str:
    folder = Path(repository)
    if ancestor := ANCESTOR.fullmatch(name):
        sha = _commit_of(folder, _resolve_local(repository, ancestor[1]) + ancestor[2])
        if sha is None:
            remedy = _how_to_fetch(folder) if _is_shallow(folder) else ""
            raise ConfigError([f"{repository}: '{name}': {ancestor[1]} has no such ancestor{remedy}"])
        return sha
    listed = run_git(["for-each-ref", "--format=%(refname) %(objectname) %(*objectname)"], folder=folder)
    refs: dict[str, str] = {}
    for line in listed.splitlines():
        ref, sha, *peeled = line.split(" ")
        refs[ref] = next((other for other in peeled if other), sha)  # `peeled`: the commit of an annotated tag
    found = _pick_ref(refs, name)
    if found is None and (name == "HEAD" or SHORT_SHA.fullmatch(name)):
        found = _commit_of(folder, name)
    if found is None:
        raise _explain_unknown(repository, name, refs)
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
    if ANCESTOR.fullmatch(name):
        raise ConfigError([f"{repository}: '{name}' needs a history, which an address has not: give the commit's hash"])
    refs: dict[str, str] = {}
    for line in run_git(["ls-remote", "--", repository]).splitlines():
        sha, _, ref = line.partition("\t")
        refs[ref.removesuffix("^{}")] = sha  # git lists the commit of an annotated tag as TAG^{}, after TAG
    found = refs.get("HEAD") if name == "HEAD" else _pick_ref(refs, name)
    if found is None and SHA.fullmatch(name):
        return name  # not checked: the later fetch fails if there is no such commit
    if found is None:
        raise _explain_unknown(repository, name, refs)
    return found


def _pick_ref(refs: dict[str, str], name: str) -> str | None:
    if name in refs and name.startswith("refs/"):
        return refs[name]
    found = [(place + name, refs[place + name]) for place in PLACES if place + name in refs]
    named = [(ref, sha) for ref, sha in found if ref.startswith(("refs/heads/", "refs/tags/"))]
    if len({sha for _, sha in named}) > 1:
        raise ConfigError([f"'{name}' is both a branch and a tag: write {' or '.join(ref for ref, _ in named)}"])
    return found[0][1] if found else None


def _explain_unknown(repository: str, name: str, refs: dict[str, str]) -> ConfigError:
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
