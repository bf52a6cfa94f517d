"""Starts, uses and ends Prefect's server and worker on this machine; tracks and ends the jobs of flows."""
