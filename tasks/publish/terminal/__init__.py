"""Comparisons, checkpoints, logs and configs on the terminal."""
