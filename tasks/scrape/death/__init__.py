"""Finds the cause of a run's death in its log: patterns, exceptions, and a table of causes."""
