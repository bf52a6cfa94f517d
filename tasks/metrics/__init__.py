"""Defines the metrics, and computes the facts of a run (metric values, step time levels) for all tables and pages."""
