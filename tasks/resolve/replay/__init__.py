"""Replays stored logs as jobs: finds a run's log, and prints its lines at the original pace."""
