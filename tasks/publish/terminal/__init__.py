"""Prints comparisons, cards, checkpoints, logs and configs on the terminal."""
