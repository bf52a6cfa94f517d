"""Turns the records of two arms into one comparison: findings, rows, floors, curves and a verdict."""

from tasks.diff.compare_runs import diff, exit_status
