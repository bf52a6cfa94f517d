"""Starts a planned run as a job, attaches to it again, and ends it."""
