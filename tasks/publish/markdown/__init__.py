"""Markdown for Prefect artifacts and for comments on pull requests."""
