"""Starts planned runs as jobs, attaches to jobs that an earlier flow started, and ends jobs."""
