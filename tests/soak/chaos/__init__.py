"""Kills flow, worker, server and trainer at random moments, and shows what became of the comparison."""
