"""Hooks of MkDocs: pages from outside of docs/, and links to files that the site does not have.

https://www.mkdocs.org/user-guide/configuration/#hooks
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
PAGES = {"CONTRIBUTING.md": "contributing.md", "deployments/README.md": "deployments.md"}  # in the repository → here
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?://|#)([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from outside of docs/."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the text of a page; a link to a file that is no page becomes its text."""
    own = next((source for source, name in PAGES.items() if name == page.file.src_uri), f"docs/{page.file.src_uri}")

    def rewrite(match: re.Match[str]) -> str:
        text, target, anchor = match[1], match[2], match[3] or ""
        place = posixpath.normpath(posixpath.join(posixpath.dirname(own), target))
        name = PAGES.get(place) or (place.removeprefix("docs/") if place.startswith("docs/") else "")
        if not name or files.get_file_from_path(name) is None:
            return text
        return f"[{text}]({posixpath.relpath(name, posixpath.dirname(page.file.src_uri))}{anchor})"

    return LINK.sub(rewrite, markdown)
