"""Turns records into JSON for other programs."""
