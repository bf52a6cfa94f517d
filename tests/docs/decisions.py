"""Writes the index of the decisions by package; `python -m tests.docs.decisions` renews docs/decisions/README.md."""

import re
from itertools import groupby
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "docs" / "decisions"
INDEX = FOLDER / "README.md"
HEAD = re.compile(r"# (\d{4}) (.+)\n\nPackage: `(.+)`\n")


def read_head(path: Path) -> tuple[str, str, str]:
    """Return a decision's package, number and title. Raises ValueError if its first lines do not have them."""
    match = HEAD.match(path.read_text(encoding="utf-8"))
    if match is None:
        raise ValueError(f"{path}: must begin with `# NNNN Title`, an empty line and `Package: `…``")
    return match[3], match[1], match[2]


def write_index() -> str:
    """Return the text of the index: the decisions in force by package, then the superseded ones."""
    found = sorted((*read_head(path), path.name) for path in FOLDER.glob("0*.md"))
    lines = ["# Decisions", "", "The records behind [docs/why](../why/README.md), with all options and figures.", ""]
    lines += ["Written by `uv run --group dev python -m tests.docs.decisions`.", ""]
    for package, decisions in groupby(found, key=lambda item: item[0]):
        lines += [f"## {package}", *(f"- [{number} {title}]({name})" for _, number, title, name in decisions), ""]
    lines += ["## Superseded"]
    for path in sorted((FOLDER / "archive").glob("0*.md")):
        lines += [f"- [{path.read_text(encoding='utf-8').partition('\n')[0].removeprefix('# ')}](archive/{path.name})"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    INDEX.write_text(write_index(), encoding="utf-8")
