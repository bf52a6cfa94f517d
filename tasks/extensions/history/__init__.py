"""Stores the metric values of all compared runs, and finds changes of level, drift and noise in them over time."""
