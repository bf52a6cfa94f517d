"""The command and the flow `bisect`."""
