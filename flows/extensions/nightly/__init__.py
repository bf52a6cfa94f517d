"""The command and the flow `nightly`."""
