"""The one table of all metrics, and the facts of a run, from which every surface takes its values."""
