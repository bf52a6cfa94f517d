"""Defines the metrics, and computes the facts of a run (metric values, step time levels) for all tables and pages.

In: `RunRecord`. Out: `RunFacts`, stored with it; the table of all metrics.
Read first: table.py.
"""
