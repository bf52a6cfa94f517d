"""Resolves a request into run plans: refs, checkouts, environments, trainers, configs, and rules of the verdict.

In: `Request`, configs, git refs. Out: `RunPlan`, one per run.
Read first: plans.py.
"""
