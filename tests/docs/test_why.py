"""The pages of docs/why are short, name records that exist, and are listed."""

import re
from pathlib import Path

import pytest

from tests.docs.decisions import FOLDER

WHY = FOLDER.parent / "why"
PAGES = sorted(path for path in WHY.glob("*.md") if path.name != "README.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_short_and_each_number_is_that_of_its_record(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 120
    links = re.findall(r"\[(\d{4})\]\(\.\./decisions/([^)]+)\)", text)
    assert links
    for number, target in links:
        assert Path(target).name.startswith(f"{number}-"), (number, target)
        assert (FOLDER / target).is_file(), target


def test_all_pages_are_listed() -> None:
    listed = re.findall(r"^\| \[(\S+)\]", (WHY / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == [page.name for page in PAGES]
