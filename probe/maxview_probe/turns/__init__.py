"""Runs two recorded programs in turns, and measures the difference of their times."""
