"""Turns given logs, or the folder of a finished run, into run records."""
