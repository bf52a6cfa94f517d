"""Starts, uses and ends Prefect's server and worker on this machine; tracks and ends the jobs of flows.

In: flow runs. Out: a server that tracks them, locks, events for the command line.
Read first: server.py.
"""
