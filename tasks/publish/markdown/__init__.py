"""Renders records as Markdown, for Prefect artifacts and comments on pull requests."""
