"""The table of all metrics, and the facts of a run: every page, table and command takes its values from them."""
