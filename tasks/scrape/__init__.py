"""Turns a training log into its runs: steps, checkpoints, environment, how it ended, and what could not be read."""

from tasks.scrape.follow import LogFollower
from tasks.scrape.read_log import copy_log, scrape, scrape_chunks, scrape_run, scrape_text
from tasks.scrape.window import LogFormatError
