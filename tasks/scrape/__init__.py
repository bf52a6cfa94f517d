"""Reads training logs: the steps, checkpoints, environment and ending of each run, and which lines were unreadable.

In: the text of a log. Out: `LogReading`.
Read first: read_log.py.
"""

from typing import TYPE_CHECKING

from configs.exports import import_on_use

if TYPE_CHECKING:
    from tasks.scrape.follow import LogFollower
    from tasks.scrape.read_log import copy_log, scrape, scrape_chunks, scrape_run, scrape_text
    from tasks.scrape.window import LogFormatError
else:
    __getattr__ = import_on_use(__name__, __file__)
