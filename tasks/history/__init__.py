"""Turns comparisons into a history of values per run, and the history into trends: change points, drift, noise."""

from tasks.history.history_table import append_comparison, compact_history, load_history, rebuild_history
from tasks.history.record_rows import HISTORY_SCHEMA, history_rows
