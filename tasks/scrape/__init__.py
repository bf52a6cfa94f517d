"""Reads training logs: the steps, checkpoints, environment and ending of each run, and which lines were unreadable.

In: the text of a log. Out: `LogReading`.
Read first: read_log.py.
"""
