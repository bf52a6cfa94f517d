"""Writes the page of one comparison, with the log and curve files that it loads."""
