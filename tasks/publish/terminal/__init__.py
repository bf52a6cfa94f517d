"""Prints comparisons, checkpoints, logs and configs on the terminal."""
