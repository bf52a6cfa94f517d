"""The command and the flow `invariants`."""
