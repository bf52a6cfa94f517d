"""Reads given logs, or the folder of a finished run, into the runs of a comparison.

In: a run's folder, or logs. Out: `RunRecord`.
Read first: run_record.py.
"""
