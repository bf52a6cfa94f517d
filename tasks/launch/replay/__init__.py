"""Replays stored logs as jobs of this machine, which the backend `local` runs."""
