"""Reads the runs that experiment trackers keep in files: a folder or file → `TrackedRun`, one per run.

Read first: tracked_run.py, find_tracked.py.
"""
