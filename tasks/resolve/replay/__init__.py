"""Stored logs as jobs: which log a run plays, and the program that plays it."""
