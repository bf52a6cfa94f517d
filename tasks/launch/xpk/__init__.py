"""Runs on a cluster: workloads that xpk creates, followed through the API server."""
