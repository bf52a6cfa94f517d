"""Reads training logs: a text to its runs, their steps, checkpoints, environment and fate, with a receipt."""

from tasks.scrape.follow import LogFollower
from tasks.scrape.read import copy_log, scrape, scrape_chunks, scrape_run, scrape_text
from tasks.scrape.window import LogFormatError

__all__ = [
    "LogFollower", "LogFormatError", "copy_log", "scrape", "scrape_chunks", "scrape_run", "scrape_text",
]  # fmt: skip
