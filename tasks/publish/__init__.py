"""Turns one comparison record into what people read: a terminal report, Prefect artifacts and a static page."""

from tasks.publish.artifacts import artifact_key, escape_markdown, summary_description, summary_markdown, table_rows
from tasks.publish.page import write_page
from tasks.publish.terminal import render_terminal

__all__ = [
    "artifact_key",
    "escape_markdown",
    "render_terminal",
    "summary_description",
    "summary_markdown",
    "table_rows",
    "write_page",
]
