"""Compares the run records of two arms: findings, metric rows, floors (proofs of equality), curves and a verdict.

An arm is one side of a comparison: the runs of one of the two compared versions.

In: `CaseRuns`: the runs of both arms. Out: `ComparisonRecord`.
Read first: compare_case.py.
"""

from typing import TYPE_CHECKING

from configs.exports import import_on_use

if TYPE_CHECKING:
    from tasks.diff.compare_runs import diff, exit_status
else:
    __getattr__ = import_on_use(__name__, __file__)
