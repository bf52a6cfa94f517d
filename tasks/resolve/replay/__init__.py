"""Replays stored logs as jobs: finds the log of a run, and plays it."""
