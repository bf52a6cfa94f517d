"""Reads given logs, or the folder of a finished run, into the runs of a comparison."""
