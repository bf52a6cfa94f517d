"""Builds trainers' commands from maxview's configs, and reads the metrics files that MaxText writes."""
