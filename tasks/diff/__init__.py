"""Compares the run records of two arms: findings, metric rows, floors (proofs of equality), curves and a verdict.

An arm is one side of a comparison: the runs of one of the two compared versions.

In: `CaseRuns`: the runs of both arms. Out: `ComparisonRecord`.
Read first: examine/examine_case.py, judge/judge_case.py.
"""
