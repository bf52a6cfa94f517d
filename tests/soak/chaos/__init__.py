"""Kills flow, worker, server and trainer at random moments, and shows the outcome of the comparison."""
