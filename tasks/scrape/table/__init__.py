"""Builds a log's table of steps from its rows (lines of steps), rejects damaged rows, and finds stalled steps."""
