"""Finds the cause of a run's death in its log: tracebacks, and tables of the texts that show a death."""
