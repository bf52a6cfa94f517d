"""Renders records for people: terminal reports, Prefect artifacts, pull request comments and static pages."""
