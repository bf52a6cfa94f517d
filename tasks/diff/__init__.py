"""Compares the run records of two arms: findings, metric rows, floors (proofs of equality), curves and a verdict."""

from tasks.diff.compare_runs import diff, exit_status
