"""Finds the source files of maxview's trainer that the results in a card depend on, and later changes of these files.

A card has a row for every case, a training setup from configs/cases. An item of a row is one property of the case with
its state: verified, failed or not verified.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from ruamel.yaml.error import YAMLError

from configs.read import load_yaml
from tasks.records.proof_card import UNCOMMITTED, Card, CardItem, CardRow, key_of
from tasks.resolve.code_digest import digest_code
from tasks.resolve.git import GitError, run_git

FOLDERS = ("model", "configs/cases", "configs/models", "configs/targets")
FILES = ("configs/base.yml",)
PREFLIGHT = "preflight"  # name of the item about compilation for a TPU slice

type Digests = Mapping[str, str]  # path of a file -> digest without comments and layout


def read_sources(root: Path, commit: str) -> Digests:
    """Return the digests of the trainer's sources at a commit; empty if git cannot read them in `root`."""
    try:
        listed = run_git(["ls-tree", "-r", "-z", "--full-tree", commit, "--", *FOLDERS, *FILES], folder=root)
        entries = [entry.partition("\t") for entry in listed.split("\0") if entry]
        return {
            path: _digest(path, run_git(["cat-file", "blob", head.split(" ")[2]], folder=root, whole=True))
            for head, _, path in entries
            if _is_source(path)
        }
    except GitError:
        return {}


def current_sources(root: Path) -> Digests:
    """Return the digests of the trainer's sources in the folder `root`, with uncommitted changes."""
    paths = [*(path for folder in FOLDERS for path in (root / folder).rglob("*")), *(root / file for file in FILES)]
    names = {path.relative_to(root).as_posix(): path for path in paths if path.is_file()}
    return {name: _digest(name, path.read_text(encoding="utf-8")) for name, path in names.items() if _is_source(name)}


def _is_source(path: str) -> bool:
    return path.endswith((".py", ".yml"))


def _digest(path: str, text: str) -> str:
    """Return a digest of Python or YAML text that does not depend on comments, docstrings and layout."""
    if path.endswith(".py"):
        return digest_code(text)
    with suppress(YAMLError):  # invalid YAML: digest the text itself
        text = json.dumps(load_yaml(text, typ="safe"), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def find_changes(card: Card, root: Path) -> dict[tuple[str, ...], list[str]]:
    """Return item key (`key_of`) → the item's source files that have changed in `root` since the item was judged.

    The list is [UNCOMMITTED] if these sources were not committed, or if the card lacks their digests. Unchanged items,
    items without sources and items that are not verified are omitted.
    """
    now = current_sources(root)
    found = {key_of(row, item): _changed(card, item, row, now) for row in card.rows for item in row.items}
    return {key: paths for key, paths in found.items() if paths}


def _changed(card: Card, item: CardItem, row: CardRow, now: Digests) -> list[str]:
    if item.state == "not verified":
        return []
    found: dict[str, None] = {}
    for before in (card.sources.get(commit, {}) for commit in item.sources):
        if not before:
            return [UNCOMMITTED]
        found |= {
            path: None for path in _relevant_paths(row, item, {**before, **now}) if before.get(path) != now.get(path)
        }
    return list(found)


def _relevant_paths(row: CardRow, item: CardItem, paths: Mapping[str, str]) -> Iterator[str]:
    """Yield those of the paths that an item depends on: all except the files of other cases and targets.

    Only the item PREFLIGHT depends on `model/compile`: training cannot import it (a contract in pyproject.toml).
    """
    own = (f"configs/cases/{row.case}.yml", f"configs/targets/{row.target}.yml")
    others = ("configs/cases/", "configs/targets/", *(() if item.name == PREFLIGHT else ("model/compile/",)))
    for path in sorted(paths):
        if not path.startswith(others) or path in own:
            yield path


def add_source_digests(card: Card, root: Path) -> Card:
    """Return the card with the digests of the sources at each of the card's commits, read from the checkout `root`."""
    commits = {commit for row in card.rows for item in row.items for commit in item.sources} - {UNCOMMITTED}
    return card.model_copy(update={"sources": {sha: dict(read_sources(root, sha)) for sha in sorted(commits)}})
