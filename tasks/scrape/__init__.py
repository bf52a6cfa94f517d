"""Reads training logs: the steps, checkpoints, environment and ending of each run, and which lines were unreadable.

In: the text of a log. Out: `LogReading`.
Read first: read_log.py.
"""

from tasks.scrape.follow import LogFollower
from tasks.scrape.read_log import copy_log, scrape, scrape_chunks, scrape_run, scrape_text
from tasks.scrape.window import LogFormatError
