"""Stores the metric values of all compared runs, and finds changes of level, drift and noise in them over time."""

from tasks.history.history_table import append_comparison, compact_history, load_history, rebuild_history
from tasks.history.record_rows import HISTORY_SCHEMA, history_rows
