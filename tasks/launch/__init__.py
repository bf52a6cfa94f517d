"""Starts planned runs as jobs, attaches to jobs that an earlier flow started, and ends jobs.

In: `RunPlan`. Out: a job, its events and its log.
Read first: job.py.
"""
