"""Runs as supervised processes of this machine: trainers, and players of stored logs."""
