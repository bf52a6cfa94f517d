"""Turns what runs have left, logs that somebody brings or the folder of a run of ours, into run records."""
