"""The index of the decisions is the one that its command writes, and their packages and links exist."""

import re

from tests.docs.decisions import FOLDER, INDEX, read_head, write_index


def test_the_index_is_current() -> None:
    assert INDEX.read_text(encoding="utf-8") == write_index(), "type: uv run --group dev python -m tests.docs.decisions"


def test_packages_and_links_exist() -> None:
    root = FOLDER.parents[1]
    for path in FOLDER.glob("0*.md"):
        assert (root / read_head(path)[0]).is_dir(), path
    for path in FOLDER.rglob("*.md"):
        for link in re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text(encoding="utf-8")):
            assert (path.parent / link).exists(), (path, link)
