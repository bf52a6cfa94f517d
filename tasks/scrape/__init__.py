"""Reads training logs: their runs with steps, checkpoints, environment, ending, and a receipt of unreadable lines."""

from tasks.scrape.follow import LogFollower
from tasks.scrape.read_log import copy_log, scrape, scrape_chunks, scrape_run, scrape_text
from tasks.scrape.window import LogFormatError
