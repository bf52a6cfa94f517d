"""Reads training logs: a file to its runs, their steps, checkpoints, environment and fate, with a receipt."""

from tasks.scrape.as_json import json_text, to_json
from tasks.scrape.errors import LogFormatError
from tasks.scrape.follow import (
    CheckpointCommitted,
    CheckpointStarted,
    Died,
    Ended,
    LogEvent,
    LogFollower,
    StepCompleted,
)
from tasks.scrape.lines import display_lines, stream_lines
from tasks.scrape.read import scrape, scrape_run, scrape_text
from tasks.scrape.sources import copy_log, read_sources, scrape_folder, scrape_stream

__all__ = [
    "CheckpointCommitted",
    "CheckpointStarted",
    "Died",
    "Ended",
    "LogEvent",
    "LogFollower",
    "LogFormatError",
    "StepCompleted",
    "copy_log",
    "display_lines",
    "json_text",
    "read_sources",
    "scrape",
    "scrape_folder",
    "scrape_run",
    "scrape_stream",
    "scrape_text",
    "stream_lines",
    "to_json",
]
